# Two commands do everything on a machine with Python 3.11 or newer, make and git: `make demo` and `make test`.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
PEERS  := .venv-peers

.PHONY: demo test lint types imports unit test-slow test-peers docs format clean

demo: $(READY)
	$(BIN)/rhel-hw demo

test: lint types imports unit

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# Tests compile hundreds of small programs and run each once: this compiles them in half the time, where XLA knows it.
QUICK = --xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 --xla_llvm_disable_expensive_passes=true \
	--xla_cpu_parallel_codegen_split_count=1

unit: $(READY)
	@if XLA_FLAGS='$(QUICK)' $(BIN)/python -c 'import jax; jax.numpy.zeros(1)' >/dev/null 2>&1; \
		then export XLA_FLAGS='$(QUICK)'; fi; $(BIN)/pytest -n 2 --dist worksteal
	$(BIN)/pytest -m 'speed and not slow'

# Long reproductions, outside `make test`.
test-slow: $(READY)
	$(BIN)/pytest -m "slow and not peers"

# Independent reference tools, heavy or GPL, as separate processes and in an environment of their own.
test-peers: $(PEERS)/.ready
	$(PEERS)/bin/pytest -m peers

# The site, in the folder `site`; pages that are written from the code are written anew, notebooks run. Warnings are errors.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet --strict
	@echo "site/index.html is the first page; its search needs a server: $(BIN)/python -m http.server -d site"

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "rhel-hw needs Python 3.11 or newer: make PYTHON=/path/to/python3.11"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --upgrade pip
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

$(VENV)/.docs: $(READY)
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[docs]'
	@touch $@

$(PEERS)/.ready: pyproject.toml
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --editable '.[dev,peers]'
	@touch $@

clean:
	rm -rf $(VENV) $(PEERS) build dist demo site *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
