# Everything runs in .venv, which the first command creates.
PYTHON ?= python3
BIN := .venv/bin
THREADS := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test test-portable test-pages test-slow test-wheel test-python mutants package lint bench docs site test-site clean

demo: .venv/base.stamp
	$(BIN)/ridgeformer demo
	$(BIN)/ridgeformer verify --fast

# Two workers of one thread each are the fastest way to fill two cores with small problems.
test: .venv/dev.stamp lint
	$(THREADS) $(BIN)/python -m pytest -n 2

# The tests marked `portable`, as CPUs of three generations compute: PyTorch's own kernels, MKL's and
# OpenBLAS's add in different orders on each. A generation that this CPU lacks is left out.
GENERATIONS := default avx2 avx512
KERNELS_default := MKL_CBWR=COMPATIBLE OPENBLAS_CORETYPE=Nehalem
KERNELS_avx2 := MKL_CBWR=AVX2 OPENBLAS_CORETYPE=Haswell
KERNELS_avx512 := MKL_CBWR=AVX512 OPENBLAS_CORETYPE=SkylakeX

test-portable: $(GENERATIONS:%=test-portable-%)

test-portable-%: .venv/dev.stamp
	@if [ $* = default ] || grep -qs $* /proc/cpuinfo; then \
	  echo "portable tests, CPU capability $*"; \
	  ATEN_CPU_CAPABILITY=$* $(KERNELS_$*) $(THREADS) \
	    $(BIN)/python -m pytest -n 2 -m "portable and not slow"; \
	else \
	  echo "portable tests, CPU capability $*: left out, this CPU does not have it"; \
	fi

# Every page in a headless browser, at the widths of a laptop, a tablet and a phone.
test-pages: .venv/dev.stamp
	$(THREADS) $(BIN)/python -m pytest -n 2 -m "pages and not slow"

test-slow: .venv/dev.stamp
	$(THREADS) $(BIN)/python -m pytest -n 2 -m slow

# The package alone: built, installed into an empty environment, and used from there by every command of the README.
test-wheel: .venv/dev.stamp
	$(BIN)/python -m pytest -m wheel --durations=5 tests/test_wheel.py

# The default tests with another interpreter: make test-python PYTHON=python3.14
test-python:
	$(PYTHON) -m venv .venv-$(notdir $(PYTHON))
	.venv-$(notdir $(PYTHON))/bin/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,export,gp,cluster,lm]"
	$(THREADS) .venv-$(notdir $(PYTHON))/bin/python -m pytest -n 2

# Plants errors one at a time in a copy of the sources and writes docs/mutants.md: which statement or test noticed
# each. ONLY="name …" plants those alone and leaves the table as it is; a run that was interrupted goes on.
WORKERS ?= 2
mutants: .venv/dev.stamp
	$(THREADS) $(BIN)/python -m mutants --workers $(WORKERS) $(ONLY)

# The sdist, and the wheel that is built from it, in dist.
package: .venv/dev.stamp
	$(BIN)/python -m build --no-isolation .

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

# The documentation site, in build/site: every tutorial run, and no warning.
site: .venv/site.stamp
	$(THREADS) $(BIN)/python -m docs.building

# Every link, every formula, and the search of the site, in a browser that is off the network; and the snippets of the documents.
test-site: site
	$(THREADS) $(BIN)/python -m pytest -n 2 -m site tests/site

.venv/base.stamp: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

.venv/dev.stamp: .venv/base.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,export,gp,cluster,lm]"
	touch $@

.venv/site.stamp: .venv/dev.stamp
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@

clean:
	rm -rf .venv .venv-* results build dist src/*.egg-info
