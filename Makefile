# Everything runs in .venv, which the first command creates.
PYTHON ?= python3
BIN := .venv/bin
THREADS := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-slow lint bench docs clean

demo: .venv/base.stamp
	$(BIN)/ridgeformer demo
	$(BIN)/ridgeformer verify --fast

# Two workers of one thread each are the fastest way to fill two cores with small problems.
test: .venv/dev.stamp lint
	$(THREADS) $(BIN)/python -m pytest -n 2

test-slow: .venv/dev.stamp
	$(THREADS) $(BIN)/python -m pytest -n 2 -m slow

lint: .venv/dev.stamp
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: .venv/dev.stamp
	$(BIN)/python benchmarks/run.py

# docs/compiles.md from what the compiler does, docs/theorems.md from the statements.
docs: .venv/base.stamp
	$(BIN)/python -m ridgeformer.compiler.catalogue
	$(BIN)/python -m ridgeformer.experiments.theorems.statements.document

.venv/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev.stamp: .venv/base.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,export,gp]"
	touch $@

clean:
	rm -rf .venv results build src/*.egg-info
