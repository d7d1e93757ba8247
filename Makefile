# Everything works from a fresh checkout on a machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: help install demo test lint bench bench-updates bench-selection bench-quality bench-models mutants clean

help:            ## show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(VENV)/installed   ## make the virtual environment .venv with all that development needs

$(VENV)/plain: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable .
	touch $@

$(VENV)/installed: $(VENV)/plain
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[torch,text,image,table,test]'
	touch $@

demo: $(VENV)/plain ## learn handwritten digits label by label, print a table, save a plot
	$(BIN)/everylabel demo

test: install lint   ## lint, types, import directions and all tests
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

lint: install    ## style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install   ## speed and memory of the core, as ratios measured in one run
	$(BIN)/python -m benchmarks.core

bench-updates: install ## quality and speed of the exact update; tables, docs/results/updates.json and .png
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.updates

bench-models: install ## features by a hook, embedding, stored features, ensembles: as ratios
	$(BIN)/python -m benchmarks.models

bench-selection: install   ## speed of selection against bare products and other libraries
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m benchmarks.selection

bench-quality: install   ## paired active-learning curves; DATA=folder of the feature files
	$(BIN)/python -m benchmarks.quality --data $(or $(DATA),../shared/data)

mutants: install ## break every formula in turn and see its test fail
	$(BIN)/python -m tests.mutants

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache
