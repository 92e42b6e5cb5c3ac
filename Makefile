# make demo   finds the edges in a photograph, and prints where the picture is
# make test   runs the tests
# Both create a virtual environment in .venv and install what they need; later runs reuse it.

VENV   := .venv
BIN    := $(VENV)/bin
PYTEST_ARGS ?=

# The Python for .venv: $(PYTHON) if given, otherwise the first on PATH that is new enough.
NEW_ENOUGH := import sys; sys.exit(sys.version_info < (3, 11))
ifeq ($(PYTHON),)
PYTHON := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c '$(NEW_ENOUGH)' >/dev/null 2>&1 && { echo $$p; break; }; done)
endif

.DEFAULT_GOAL := help
.PHONY: help demo test test-long test-array-api test-gpu lint format bench docs wheel clean

help:
	@echo "make demo       find the edges in a photograph, and draw them"
	@echo "make test       run the tests (a quarter of an hour on two cores)"
	@echo "make test-long  run what make test leaves out (takes much longer)"
	@echo "make test-array-api SUITE=path  run the Array API standard's conformance suite"
	@echo "make test-gpu   run the tests that need a GPU, and the conformance tests on it"
	@echo "make lint       ruff and mypy"
	@echo "make format     format the sources with ruff"
	@echo "make bench      run the benchmarks against NumPy, Numba, SciPy and JAX"
	@echo "make docs       build the documentation site into build/site"
	@echo "make wheel      build the wheel and the source archive into dist/, and check what is in them"
	@echo "make clean      remove everything that make created"

demo: $(VENV)/.with-examples
	$(BIN)/treadle example canny $(DEMO_ARGS)

test: $(VENV)/.with-test
	$(BIN)/python -m pytest -q -n auto -m "not long" $(PYTEST_ARGS)

test-long: $(VENV)/.with-test
	$(BIN)/python -m pytest -q -n auto -m long $(PYTEST_ARGS)

# SUITE: a clone of github.com/data-apis/array-api-tests, see tests/array_api/suite.py.
test-array-api: $(VENV)/.with-test
	$(BIN)/python -m tests.array_api.suite $(SUITE) $(ARRAY_API_ARGS)

test-gpu: $(VENV)/.with-test $(VENV)/.with-cuda13
	TREADLE_TEST_BACKENDS=cuda $(BIN)/python -m pytest -q -n 8 -m "not long" --all-instances \
		tests/gpu tests/conformance $(PYTEST_ARGS)

lint: $(VENV)/.with-lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(VENV)/.with-lint
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(VENV)/.with-dev
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

docs: $(VENV)/.with-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "build/site/index.html"

wheel: $(VENV)/.with-lint
	$(BIN)/python .ci/release.py --dirty

clean:
	rm -rf $(VENV) build dist treadle-output treadle.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# A stamp per set of extras, renewed when pyproject.toml changes; pip skips what is installed.
$(VENV)/.with-%: pyproject.toml $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[$*]"
	@touch $@

$(BIN)/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "treadle needs Python 3.11 or newer, and there is none on PATH" \
			"(python3 is $$(python3 --version 2>/dev/null || echo missing))."; \
		echo "Install one, or name it: make $(or $(MAKECMDGOALS),test) PYTHON=/path/to/python3.12"; \
		exit 1; \
	fi
	@echo "creating $(VENV) with $$($(PYTHON) --version) ..."
	@$(PYTHON) -m venv --clear $(VENV) || { \
		rm -rf $(VENV); \
		echo "$(PYTHON) could not create a virtual environment."; \
		echo "On Debian and Ubuntu: apt install python3-venv"; \
		exit 1; \
	}

.PRECIOUS: $(BIN)/python $(VENV)/.with-%
