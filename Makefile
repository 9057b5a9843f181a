# make demo    a virtual environment, three daemons on loopback, an MLP trained on real digits
# make test    a virtual environment, ruff, mypy, every test
# Both need python3 (3.10 or newer) and make alone. PYTHON=... chooses another interpreter.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check
SEEDS  ?= 100

.PHONY: help venv demo test lint bench bench-kernels schemas docs soak clean
help:
	@sed -n 's/^# \{0,1\}//p' Makefile | head -n 3

# One stamp a set of packages: made again when what they are made from changes.
$(VENV)/made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "dtfzmq needs Python 3.10 or newer; set PYTHON=..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/runtime: $(VENV)/made setup.cfg pyproject.toml
	$(PIP) -e .
	@touch $@

$(VENV)/testing: $(VENV)/runtime
	$(PIP) -e '.[test]'
	@touch $@

venv: $(VENV)/testing

demo: $(VENV)/runtime
	$(BIN)/dtfzmq run --ps 1 --workers 2 --workers-run serve --status -- $(BIN)/python examples/digits.py

lint: $(VENV)/testing
	$(BIN)/ruff check .
	$(BIN)/mypy

test: lint
	$(BIN)/python -m pytest --seeds $(SEEDS)

bench: $(VENV)/runtime
	$(BIN)/python benchmarks/run.py

bench-kernels: $(VENV)/runtime
	$(BIN)/python benchmarks/kernels.py

schemas: $(VENV)/runtime
	$(BIN)/python schemas/generate.py

docs: $(VENV)/runtime
	$(BIN)/python -m docs.generate

soak: $(VENV)/testing
	$(BIN)/python -m pytest tests/sim --seeds 5000

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
