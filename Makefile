.DEFAULT_GOAL := main
.PHONY: setup main test check clean

PYTHON ?= python3
TORCH ?= 2.13.0
READY := .venv/.ready

setup: $(READY)

# torch comes first: of all packages it is the one whose build (CPU or GPU) a machine may choose.
$(READY): pyproject.toml
	test -x .venv/bin/python || $(PYTHON) -m venv .venv
	.venv/bin/python -m pip install --quiet torch==$(TORCH)
	.venv/bin/python -m pip install --quiet --editable '.[dev]'
	scripts/bubblewrap
	touch $@

main: setup
	.venv/bin/python -m clawloop +experiment=main

test: setup
	.venv/bin/python -m pytest -q -n auto --dist worksteal

check: setup
	scripts/check

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
