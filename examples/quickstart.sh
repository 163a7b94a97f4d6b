#!/bin/sh
# From nothing to a translator: a virtual environment with pinned versions, then the demo on the built-in corpus.
set -eu
cd "$(dirname "$0")/.."
sh setup-venv.sh
exec .venv/bin/tfm demo "$@"
