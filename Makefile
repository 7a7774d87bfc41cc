# Two commands matter to a newcomer: 'make run' and 'make test'. Both do all the set-up they need, without root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: help run setup dev test slow check lint lock fuzz bench reproduce seeds peers jars lakes docs notebooks pictures clean

help:  ## this list
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: setup  ## the main job on the embedded default: a fleet of brokers, then the same clients as peers
	$(BIN)/coterie compare
	@echo
	$(BIN)/coterie compare --peers

setup: $(VENV)/.ready  ## the command at .venv/bin/coterie, and a Java for Spark

dev: $(VENV)/.ready-dev

test: dev  ## everything CI runs
	$(BIN)/ruff format --check --quiet src tests benchmarks
	$(BIN)/ruff check --quiet src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python scripts/warm_kernels.py
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

check: dev  ## the quick gate: style, types, layers, unit tests, conformance
	$(BIN)/ruff format --check --quiet src tests benchmarks
	$(BIN)/ruff check --quiet src tests benchmarks
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/python -m pytest -n 2 -m "not spark and not interop and not slow and not traces"

slow: dev  ## the tests that take too long for every change
	$(BIN)/python -m pytest -n 2 -m slow

seeds: dev  ## many seeds of every system under faults
	COTERIE_SEEDS=200 $(BIN)/python -m pytest -n 2 tests/simulation

fuzz: dev  ## ten million bad inputs to the parsers, a million to the ports, the same bytes to others (hours)
	$(BIN)/python -m tests.fuzz --inputs 10000000
	$(BIN)/python -m tests.fuzz --ports 1000000
	$(BIN)/python -m tests.fuzz --rival mosquitto --inputs 20000
	$(BIN)/python -m tests.fuzz --rival rust --inputs 200000

bench: dev  ## every benchmark, as ratios against a named baseline
	@for file in benchmarks/bench_*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

reproduce: setup  ## every claim of the papers in full
	$(BIN)/coterie reproduce --full

docs: dev  ## the documentation as a site, in site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet
	@echo "open site/index.html"

notebooks: dev  ## run the notebooks of examples/ and keep what they say
	$(BIN)/python -m scripts.docsite.notebooks

pictures: dev  ## draw docs/pictures again, from runs
	$(BIN)/python -m scripts.docsite.pictures

peers:  ## mosquitto, HAProxy, Chromium and Prometheus for tests with them, where that may be (Debian packages, root)
	@sh scripts/peers

jars:  ## Kafka (source and broker) and hadoop-aws for the tests that need them, by Maven into .jars
	mvn -q -B -f scripts/jars/pom.xml dependency:copy -DoutputDirectory=$(CURDIR)/.jars/spark
	mvn -q -B -f scripts/jars/pom.xml dependency:copy-dependencies -DoutputDirectory=$(CURDIR)/.jars/broker

lakes: dev  ## a Spark with Delta and Iceberg for the test of both, in .lakes
	sh scripts/lakes $(BIN)/python

lock: dev  ## renew the pins (needs uv)
	sh scripts/lock

clean:  ## forget the environment and all results
	rm -rf $(VENV) out site

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "coterie needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: requirements.lock pyproject.toml | $(VENV)/bin/python
	@echo "setting up $(VENV) (once, about two minutes)"
	$(PIP) install --require-hashes -r requirements.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@$(BIN)/python scripts/has_java.py 2>/dev/null || $(PIP) install --require-hashes -r requirements-java.lock
	@$(BIN)/python scripts/has_java.py
	@touch $@

$(VENV)/.ready-dev: requirements-dev.lock $(VENV)/.ready
	$(PIP) install --require-hashes -r requirements-dev.lock
	@touch $@
