#!/bin/sh
# Every gate, then the tests: a virtual environment with pinned versions, ruff, mypy, import-linter, pytest.
# Arguments go to pytest. Tests on real corpora run where TFM_CORPORA names a folder that holds them.
set -eu
cd "$(dirname "$0")/.."
sh setup-venv.sh dev
bin=.venv/bin
$bin/ruff format --check .
$bin/ruff check .
$bin/mypy
$bin/lint-imports
# One thread a worker: the models are tiny, and two workers fill two cores.
OMP_NUM_THREADS=1 exec $bin/python -m pytest -n "${TFM_TEST_WORKERS:-2}" "$@"
