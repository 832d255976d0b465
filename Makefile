# `make run` starts GPU Commons on this machine; `make test` checks everything.
.DEFAULT_GOAL := help
SHELL := /bin/sh
PYTHON_BOOT := $(if $(PYTHON),$(PYTHON),python3)
VENV := .venv/bin
ARGS ?=
ONLY ?=

.PHONY: help setup run manage test lint format bench compiled mutations audit

help: ## what can be made
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1	\2/p' Makefile

setup: ## make .venv and install the pinned requirements
	@command -v $(PYTHON_BOOT) >/dev/null || { echo "make setup: $(PYTHON_BOOT) was not found; install Python 3.11, 3.12 or 3.13 (on Debian: apt-get install python3 python3-venv)" >&2; exit 1; }
	@$(PYTHON_BOOT) requirements/install.py

run: setup ## start everything here: PORT=8000 DATA_DIR=./data DEMO=1 ADMIN_USER= ADMIN_PASSWORD=
	@exec $(VENV)/python -m portal.launcher

manage: setup ## manage.py on what `make run` keeps up here: ARGS='host_list' DATA_DIR=./data
	@exec $(VENV)/python -m portal.launcher manage $(ARGS)

test: setup ## lint, types, walls, migrations, deploy check and tests: ARGS='-k name'
	@exec $(VENV)/python -m tests.everything $(ARGS)

lint: setup ## ruff and mypy
	@$(VENV)/ruff check . && $(VENV)/ruff format --check . && $(VENV)/mypy scheduler portal

format: setup ## put the source into its one format
	@$(VENV)/ruff check --fix . && $(VENV)/ruff format .

bench: setup ## the figures as JSON lines: ONLY=name,name
	@exec $(VENV)/python -m benchmarks $(if $(ONLY),--only $(ONLY))

compiled: setup ## the scheduler compiled for simulations: two minutes, then they take 0.6 of the time
	@exec $(VENV)/python -m portal.simulations.compiling

mutations: setup ## break each rule on purpose: each must fail a test: ARGS='R9a R12' or ARGS=--list
	@exec $(VENV)/python -m tests.mutations $(ARGS)

audit: setup ## known faults in the pinned packages
	@exec $(VENV)/python -m tests.audit
