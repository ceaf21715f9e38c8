#!/usr/bin/env bash
# ruff and mypy over the whole tree. Needs the tools on PATH: run it as `make check`.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

ruff check .
ruff format --check .

# sim/, boards/ and templates/ are hwgen.sim, … only once installed. mypy reads sources, so it is shown the
# packages in that shape: a folder of links.
view=build/mypy/hwgen
rm -rf build/mypy
mkdir -p "$view"
for path in "$PWD"/hwgen/* "$PWD"/sim "$PWD"/boards "$PWD"/templates; do
    [ "${path##*/}" = __pycache__ ] || ln -s "$path" "$view/"
done
MYPYPATH=build/mypy mypy --python-executable .venv/bin/python --package hwgen
