# A machine with Python 3.11 or newer, pip and make is enough: every target sets up what it needs in .venv.
PYTHON ?= python3
WORKERS ?= 2
LEFT_OUT ?= torch
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check
INPUTS := pyproject.toml constraints.txt

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo test lint types bench docs docs-check wheel slow label-studio faults mutants reproduce reproduce-quick minimum format clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.ready-run ## Review 1 000 messages with three votes each: queue, page, and what to type for own files
	$(BIN)/credalset demo

test: lint types ## Lint, types, fast tests and every example in docstrings, README and docs
	$(BIN)/python -m pytest -n $(WORKERS)

lint: $(VENV)/.ready-test ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready-test ## Check types, strictly
	$(BIN)/mypy

bench: $(VENV)/.ready-test ## Run every benchmark
	@set -e; for script in $(filter-out %_worker.py,$(wildcard benchmarks/*.py)); do \
		echo "== $$script"; $(BIN)/python "$$script"; done

docs: $(VENV)/.ready-docs ## Build the documentation site into site/, warnings are errors
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

docs-check: docs $(VENV)/.ready-test ## Visit every page of the site in a browser: contrast, sideways scrolling, copies of code
	$(BIN)/python tools/check_docs.py site

wheel: $(BIN)/python ## Build wheel and sdist into dist/, and try the wheel in a new environment
	$(PIP) install --quiet -c constraints.txt hatchling
	rm -rf dist
	$(BIN)/python -m hatchling build
	$(BIN)/python tools/try_package.py --constraint constraints.txt dist/*.whl

slow: $(VENV)/.ready-test ## Run the long statistical tests
	$(BIN)/python -m pytest -m slow -n $(WORKERS)

label-studio: $(VENV)/.ready-test ## Send tasks through a real Label Studio and back; installs it in an environment of its own (five minutes)
	$(PYTHON) -m venv $(VENV)-label-studio
	$(VENV)-label-studio/bin/python -m pip --disable-pip-version-check install --quiet label-studio==1.23.2
	LABEL_STUDIO=$(CURDIR)/$(VENV)-label-studio/bin/label-studio $(BIN)/python -m pytest -m slow -rs tests/io/test_label_studio.py

faults: $(VENV)/.ready-test ## Kill, forge, fill disks and lose workers at random; prints a table of outcomes
	$(BIN)/python tools/faults.py

mutants: $(VENV)/.ready-test ## Break the code on purpose, twenty ways and more, and see that the tests notice
	$(BIN)/python tools/mutants.py

reproduce: $(VENV)/.ready-test ## Run the paper's experiments in full (stop and continue at any time)
	$(BIN)/python -m reproduction all

reproduce-quick: $(VENV)/.ready-test ## Run the paper's experiments at tiny sizes
	$(BIN)/python -m reproduction all --quick --out reproduction-quick

minimum: ## Run the tests with the oldest versions that pyproject.toml allows (LEFT_OUT= for PyTorch too, 5 GB)
	$(PYTHON) -m venv $(VENV)-minimum
	$(PYTHON) tools/minimum_versions.py $(LEFT_OUT) > $(VENV)-minimum/pins.txt
	$(VENV)-minimum/bin/python -m pip --disable-pip-version-check install --quiet -c $(VENV)-minimum/pins.txt \
		-r $(VENV)-minimum/pins.txt -e '.[cli,plot,dask]'
	$(VENV)-minimum/bin/python -m pytest -n $(WORKERS) -W ignore::DeprecationWarning tests

format: $(VENV)/.ready-test ## Rewrite the code to the house style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean: ## Remove the environment, caches and everything built
	rm -rf $(VENV) $(VENV)-minimum $(VENV)-label-studio .venv-probly site dist build demo-output reproduction-results reproduction-quick .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "credalset needs Python 3.11 or newer; try: make PYTHON=python3.11 ...")'
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras: what is installed is redone when pyproject.toml or constraints.txt change.
$(VENV)/.ready-run: EXTRAS := cli
$(VENV)/.ready-test: EXTRAS := test,lint
$(VENV)/.ready-docs: EXTRAS := all,docs
$(VENV)/.ready-%: $(INPUTS) | $(BIN)/python
	$(PIP) install --quiet -c constraints.txt -e '.[$(EXTRAS)]'
	@touch $@
