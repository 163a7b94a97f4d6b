#!/bin/sh
# Make a virtual environment for each named peer below benchmarks/work/peers/:  sh benchmarks/peers/install.sh NAME...
# NAME is eole, huggingface or joeynmt. A second run costs nothing. PYTHON names the interpreter to use (3.11 or newer).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
environments=$here/../work/peers
torch=torch==2.13.0  # of tfm's own constraints.txt: the same products and kernels in every tool

packages() {  # the pinned packages of peer $1; behind a + those that it needs and does not ask for
    case $1 in
    eole) echo "eole==0.6.4 + aiohttp" ;;
    huggingface) echo "transformers==5.24.0 accelerate==1.15.0 sentencepiece==0.2.1 + sacremoses" ;;
    joeynmt) echo "joeynmt==2.3.0 sentencepiece==0.2.0 + importlib_metadata setuptools<81" ;;
    *) return 1 ;;
    esac
}

[ $# -gt 0 ] || { echo "error: name a peer: eole, huggingface, joeynmt" >&2; exit 2; }
for peer in "$@"; do
    wanted=$(packages "$peer") || { echo "error: no peer is called $peer: eole, huggingface, joeynmt" >&2; exit 2; }
    environment=$environments/$peer
    # A stamp of what was installed makes a second run cost nothing.
    [ "$(cat "$environment/installed" 2>/dev/null)" != "$torch $wanted" ] || continue
    echo "Installing $peer into $environment ..." >&2
    rm -rf "$environment"
    mkdir -p "$environments"
    "${PYTHON:-python3}" -m venv "$environment"
    log=$environments/$peer.log
    # shellcheck disable=SC2046  # one word a package
    "$environment/bin/python" -m pip install --disable-pip-version-check "$torch" $(echo "$wanted" | tr -d +) \
        > "$log" 2>&1 || { echo "error: $peer could not be installed: $(grep -v '^$' "$log" | tail -n 1) ($log)" >&2; exit 1; }
    echo "$torch $wanted" > "$environment/installed"
done
