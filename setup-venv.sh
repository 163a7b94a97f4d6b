#!/bin/sh
# Make .venv beside this file with the pinned versions and the project in it: sh setup-venv.sh [EXTRA[,EXTRA...]]
# PYTHON names the interpreter to use (3.11 or newer).
set -eu
cd "$(dirname "$0")"
python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "error: Python 3.11 or newer is needed, $python is $("$python" -V 2>&1). Set PYTHON to one." >&2
    exit 2
}
[ -x .venv/bin/python ] || "$python" -m venv .venv
extras=${1:+[$1]}
# A stamp of what was installed makes a second run cost nothing.
want="$extras $(cksum pyproject.toml constraints.txt)"
if [ "$(cat .venv/installed 2>/dev/null)" != "$want" ]; then
    echo "Installing into .venv (torch is the large one) ..." >&2
    .venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".$extras"
    echo "$want" > .venv/installed
fi
