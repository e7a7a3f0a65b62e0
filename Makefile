# The verbs of this repository. `make run` and `make test` work from a fresh clone with an empty environment.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help run test nightly check setup setup-dev fmt lint types imports bench cover lock clean

help: ## Show the verbs
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

run: setup ## Set up, start the box, ask it three prompts, keep serving until Ctrl-C
	@exec $(BIN)/fairlane demo

test: setup-dev ## Set up and run all tests
	$(BIN)/pytest

nightly: setup-dev ## Set up and run the property tests with a thousand examples each
	FAIRLANE_HYPOTHESIS=nightly $(BIN)/pytest tests/property

check: lint types imports ## All gates: style, both type checkers, import contracts

setup: ## Make .venv with all that running needs
	@$(PYTHON) ops/setup/bootstrap.py

setup-dev: ## The same, with what tests and gates need
	@$(PYTHON) ops/setup/bootstrap.py dev

fmt: setup-dev ## Format the code
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

lint: setup-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup-dev
	$(BIN)/mypy
	$(BIN)/basedpyright --pythonpath $(BIN)/python

imports: setup-dev
	$(BIN)/lint-imports

bench: setup ## Measure the bus beside a bare relay
	$(BIN)/fairlane bench bus

cover: setup-dev ## Run the tests with branch coverage
	$(BIN)/coverage run -m pytest -m "not slow"
	$(BIN)/coverage report

lock: ## Renew the lock files (needs network)
	$(PYTHON) ops/lock/renew.py

clean: ## Remove what setup and tests left here
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
