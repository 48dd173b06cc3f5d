# `make help` lists the targets. Everything runs in .venv, which is created on first use.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
DOCS   := $(VENV)/.installed-docs
FUZZ_SECONDS ?= 300
# Tests start many processes: each would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
# One more than cores: tests that start servers and clusters wait for them.
PROCESSES ?= $(shell expr $$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 1) + 1)

.PHONY: help install demo serve cluster test pytest lint perf asan arm64 crash fuzz dist screenshots docs clean

help:  ## show this list
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(STAMP): pyproject.toml setup.py constraints.txt $(wildcard src/hashstream/_native/*.c src/hashstream/_native/*.h)
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[all,test,lint]'
	@touch $@

$(DOCS): $(STAMP)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[docs]'
	@touch $@

install: $(STAMP)  ## create the virtual environment and install the package with all extras and compiled kernels

demo: $(STAMP)  ## stream a real data set through PosteriorHash, watch mAP rise, write two pictures (a minute, once installed)
	$(BIN)/hashstream demo --out demo-output

serve: $(STAMP)  ## a table of unlabelled images and the page to teach it, at http://127.0.0.1:8000/
	$(BIN)/hashstream serve serve-tables --demo --open

cluster: $(STAMP)  ## two shards on this machine, killed and taught while they are searched; a picture (two minutes)
	$(BIN)/hashstream cluster demo --out cluster-output

test: $(STAMP)  ## lint, types, tests, doctests, the examples of README and docs (CASES=--all-cases: every combination)
	@$(MAKE) --no-print-directory --jobs=2 lint pytest

pytest: $(STAMP)
	$(BIN)/python -m pytest -q --numprocesses $(PROCESSES) --dist worksteal $(CASES)

lint: $(STAMP)  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

perf: $(STAMP)  ## speed, as ratios to the literal equations, matrix products, faiss and NumPy
	$(BIN)/hashstream perf fcoh
	$(BIN)/hashstream perf hamming
	$(BIN)/hashstream perf methods
	$(BIN)/hashstream perf table
	$(BIN)/hashstream perf threads
	$(BIN)/hashstream perf scales
	$(BIN)/hashstream perf imports
	$(BIN)/hashstream perf trace
	$(BIN)/hashstream perf serve

asan: $(STAMP)  ## run the kernels' tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(BIN)/python tests/run_asan.py

arm64: $(STAMP)  ## the kernels for 64-bit ARM and the tests of hamming, in an emulator (needs Debian's qemu-user and a cross-compiler)
	$(BIN)/python tests/run_arm64.py

crash: $(STAMP)  ## kill, interrupt and fork tables, services and clusters, simulate power loss, damage files (half an hour)
	$(BIN)/python tests/run_crash.py
	$(BIN)/python tests/run_serve_crash.py --kills 20
	$(BIN)/python tests/run_cluster_crash.py

dist: $(STAMP)  ## an sdist and a wheel in dist/, checked, installed in empty environments and tested there (five minutes)
	$(BIN)/python tests/run_dist.py

screenshots: $(STAMP)  ## pictures of the page for the docs (needs Chromium)
	$(BIN)/python -m tests.serve.screenshots --out docs/results/serve

docs: $(DOCS)  ## the documentation as a site in site/, warnings as errors, links checked (a minute)
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --clean
	$(BIN)/python docs/_site/check.py site

fuzz: $(STAMP)  ## mutate files and folders for FUZZ_SECONDS (300), and send 10,000 generated requests
	$(BIN)/python tests/run_fuzz.py --seconds $(FUZZ_SECONDS)
	$(BIN)/python tests/run_schema_fuzz.py --cases 10000

clean:  ## remove the virtual environment and all build products
	rm -rf $(VENV) build dist *.egg-info src/*.egg-info demo-output cluster-output example-output serve-tables site
	rm -f src/hashstream/_native/_kernels*
