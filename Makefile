# The verbs of this repository. `make run` and `make test` work from a fresh clone with an empty environment.
PYTHON ?= python3
BIN := .venv/bin
FAIRLANE ?= $(CURDIR)/$(BIN)/fairlane
SYSTEMD = $(DESTDIR)/etc/systemd/system
SETTINGS = $(DESTDIR)/etc/fairlane/fairlane.toml

.DEFAULT_GOAL := help
.PHONY: help run test nightly check setup setup-dev fmt lint types imports bench cover lock install clean

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

install: ## Place systemd units, their user and settings (root; nothing is started)
	@test -x "$(FAIRLANE)" || { echo "there is no program $(FAIRLANE): run \`make setup\` first, or say FAIRLANE=" >&2; exit 1; }
	@case "$(FAIRLANE)" in /home/*|/root/*|/tmp/*|/var/tmp/*|/run/user/*) \
	  echo "the units cannot see $(FAIRLANE): to them /home, /root and /tmp are empty; move this tree, such as to /opt" >&2;; esac
	@install -d -m 755 $(SYSTEMD)/fairlane-.service.d $(DESTDIR)/etc/fairlane
	@set -e; for unit in ops/systemd/*.service ops/systemd/*.target ops/systemd/fairlane-.service.d/*.conf; do \
	  sed "s,/opt/fairlane/.venv/bin/fairlane,$(FAIRLANE),; s,/opt/fairlane/,$(CURDIR)/," $$unit | \
	    install -m 644 /dev/stdin $(SYSTEMD)/$${unit#ops/systemd/}; done
	@install -D -m 644 ops/systemd/sysusers.conf $(DESTDIR)/etc/sysusers.d/fairlane.conf
	@install -D -m 644 ops/systemd/tmpfiles.conf $(DESTDIR)/etc/tmpfiles.d/fairlane.conf
	@test -s $(SETTINGS) || { text=$$($(FAIRLANE) settings --example) && printf '%s\n' "$$text" | sed \
	  's,^run_dir = .*,run_dir = "/run/fairlane",; s,^state_dir = .*,state_dir = "/var/lib/fairlane",' | \
	    install -m 644 /dev/stdin $(SETTINGS); }
	@echo "placed; what comes next: ops/OPERATIONS.md, Under systemd"

clean: ## Remove what setup and tests left here
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache .coverage
