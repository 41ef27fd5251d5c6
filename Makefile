# `make help` lists the targets. make turns every exit code into 2: scripts that need the code call .venv/bin/dmalab.

EXP ?=
DEVICE ?=
OUT ?=
SET ?=
CLUSTER ?=
ARGS ?=
WHEELS ?=
CUDA ?=
PYTHON ?=

# Values reach the shell as they were typed, through the environment: blanks, quotes and dollars in them mean nothing to make.
export DMALAB_EXP := $(value EXP)
export DMALAB_DEVICE := $(value DEVICE)
export DMALAB_OUT := $(value OUT)
export DMALAB_SET := $(value SET)
export DMALAB_CLUSTER := $(value CLUSTER)
export DMALAB_ARGS := $(value ARGS)
export DMALAB_WHEELS := $(value WHEELS)
export DMALAB_CUDA := $(value CUDA)
export DMALAB_PYTHON := $(value PYTHON)

VENV := .venv
STAMP := $(VENV)/.installed
PY := $(VENV)/bin/python
CODE := runner tests benchmarks tools

# With WHEELS=folder pip takes packages from there and asks no index, also for what builds a package.
define offline
	if [ -n "$$DMALAB_WHEELS" ]; then \
	  PIP_FIND_LINKS=$$(cd "$$DMALAB_WHEELS" && pwd) || exit 2; PIP_NO_INDEX=1; \
	  export PIP_FIND_LINKS PIP_NO_INDEX; \
	fi; \
	lock=requirements/lock-$$($(1) -c 'import sys; print("%d.%d" % sys.version_info[:2])').txt; \
	[ -f "$$lock" ] || lock=/dev/null
endef

# The driver, not the toolkit, decides whether there is a GPU to ask.
DRIVER := $(shell command -v nvidia-smi 2>/dev/null || ldconfig -p 2>/dev/null | sed -n 's/.*libcuda\.so\.1.*=> //p' | head -n 1)

.PHONY: help run plan validate list claims doctor calibrate validate-model test test-slow test-install test-cluster soak check types \
  bench bench-cluster bench-gpu tables cuda wheels lock schema clean docs reference experiment-given
.DEFAULT_GOAL := help

define dmalab
	@set -f; set -- "$$DMALAB_EXP"; \
	[ -z "$$DMALAB_DEVICE" ] || set -- "$$@" --device "$$DMALAB_DEVICE"; \
	[ -z "$$DMALAB_OUT" ] || set -- "$$@" --out "$$DMALAB_OUT"; \
	blanks=$$IFS; IFS=';'; for pair in $$DMALAB_SET; do set -- "$$@" --set "$$pair"; done; IFS=$$blanks; \
	[ -z "$$DMALAB_CLUSTER" ] || set -- "$$@" --cluster "$$DMALAB_CLUSTER"; \
	$(PY) -m runner $(1) "$$@" $$DMALAB_ARGS
endef

help: ## list the targets
	@echo "make run EXP=overlap.yaml    run an experiment; its tables go to results/"
	@echo "make test                    run the tests; no GPU is needed"
	@echo
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1|\2/p' Makefile | awk -F'|' '{printf "%-17s %s\n", $$1, $$2}'
	@echo
	@echo "EXP=     a file in experiments/ or a path"
	@echo "DEVICE=  auto (the default), cuda, cuda:1, simulated, simulated:rtx-4090"
	@echo "OUT=     a folder instead of results/"
	@echo "SET=     KEY=VALUE changes the file for this run, several with ; between them:"
	@echo "         SET='measure.samples=5; scenarios.overlapped.chunk=[8MiB, 16MiB]'"
	@echo "CLUSTER= a Dask scheduler's address, or local:4 for four workers here; see docs/cluster.md"
	@echo "ARGS=    anything else for the command"
	@echo "WHEELS=  a folder made by make wheels, to install from without network"
	@echo "PYTHON=  the Python that .venv is made with, where it is not there yet: python3.12 or a path"

run: experiment-given $(STAMP) ## run the experiment EXP
	$(call dmalab,run)

plan: experiment-given $(STAMP) ## show what a run of EXP would do, without running
	$(call dmalab,plan)

validate: $(STAMP) ## check the file EXP, or every file in experiments/
	@if [ -n "$$DMALAB_EXP" ]; then set -- "$$DMALAB_EXP"; else set -- experiments/*.yaml; fi; $(PY) -m runner validate "$$@"

list: $(STAMP) ## list experiments, profiles and kinds
	@set -f; $(PY) -m runner list $$DMALAB_ARGS

claims: $(STAMP) ## test the claims of the source documents, or the one named by EXP
	@set -f; set --; \
	[ -z "$$DMALAB_EXP" ] || set -- "$$@" "$$DMALAB_EXP"; \
	[ -z "$$DMALAB_DEVICE" ] || set -- "$$@" --device "$$DMALAB_DEVICE"; \
	[ -z "$$DMALAB_OUT" ] || set -- "$$@" --out "$$DMALAB_OUT"; \
	$(PY) -m runner claims "$$@" $$DMALAB_ARGS

doctor: $(STAMP) ## check what this machine has and whether its numbers could be trusted
	@set -f; set --; \
	[ -z "$$DMALAB_DEVICE" ] || set -- "$$@" --device "$$DMALAB_DEVICE"; \
	$(PY) -m runner doctor "$$@" $$DMALAB_ARGS

calibrate: $(STAMP) ## fit a profile of this machine, for the simulated device to predict with
	@set -f; set --; \
	[ -z "$$DMALAB_DEVICE" ] || set -- "$$@" --device "$$DMALAB_DEVICE"; \
	[ -z "$$DMALAB_OUT" ] || set -- "$$@" --runs "$$DMALAB_OUT"; \
	$(PY) -m runner calibrate "$$@" $$DMALAB_ARGS

validate-model: $(STAMP) ## hold the calibrated profile's predictions against what it was not fitted to
	@set -f; set --; \
	[ -z "$$DMALAB_DEVICE" ] || set -- "$$@" --device "$$DMALAB_DEVICE"; \
	[ -z "$$DMALAB_OUT" ] || set -- "$$@" --runs "$$DMALAB_OUT"; \
	$(PY) -m runner validate-model "$$@" $$DMALAB_ARGS

test: $(STAMP) ## run the tests, but for the slow ones; those that need a GPU run one by one where there is one
ifeq ($(DRIVER),)
	$(PY) -m pytest -q -n auto -r fE -m "not slow"
else
	$(PY) -m pytest -q -n auto -m "not gpu and not slow"
	$(PY) -m pytest -q -n auto --maxprocesses 8 -m "gpu and not alone"
	$(PY) -m pytest -q -m "gpu and alone"
endif

test-slow: $(STAMP) ## run the slow tests: pages in a browser, what docs say, clusters of processes, searches of everything
	$(PY) -m pytest -q -n auto -r fE -m slow

soak: $(STAMP) ## run the tests of chance in full: kills at 200 moments, 100,000 files; an hour. SHARE=0.1 does a tenth
	@$(PY) -c 'import atheris' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check 'atheris>=2.3' || \
	  echo "There is no fuzzer (atheris) for this Python: files are made by hypothesis alone." >&2
	DMALAB_SOAK=$(or $(SHARE),1) $(PY) -m pytest -q -n auto tests/soak

test-install: $(STAMP) ## make set-ups from nothing, for each Python on PATH, as a newcomer does; a quarter of an hour
	DMALAB_SOAK=1 $(PY) -m pytest -q -n auto tests/soak/test_installing.py

test-cluster: $(STAMP) ## run the large tests of clusters: 10,000 cases, killed workers; five minutes
	@$(PY) -c 'import dask_jobqueue' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check 'dask-jobqueue>=0.9' || \
	  echo "There is no dask-jobqueue here: the recipe for Slurm is not tried." >&2
	DMALAB_CLUSTER_TESTS=1 $(PY) -m pytest -q tests/cluster

check: $(STAMP) ## run the linter, the type checker and the tests
	$(VENV)/bin/ruff check $(CODE)
	$(VENV)/bin/ruff format --check $(CODE)
	@# Side by side, since the types of a fresh clone take a quarter of a minute on a processor that the tests leave idle.
	@$(MAKE) --no-print-directory -j 2 types test

types: $(STAMP) ## run the type checker alone
	$(VENV)/bin/mypy

bench: $(STAMP) ## time the runner itself on the simulated device
	$(PY) benchmarks/bench.py

bench-cluster: $(STAMP) ## say what a cluster costs, with up to 1,000 simulated GPUs; ARGS='--workers 4 --cases 1000' for less
	@set -f; PYTHONPATH=. $(PY) benchmarks/cluster.py $$DMALAB_ARGS

bench-gpu: $(STAMP) ## compare with native code on the GPU
	@set -f; $(PY) benchmarks/gpu.py $$DMALAB_ARGS

tables: $(STAMP) ## write the README's tables, page and picture from results/reference/
	PYTHONPATH=. $(PY) tools/readme_tables.py
	$(PY) tools/two_gpus.py
	PYTHONPATH=. $(PY) tools/pages.py

cuda: $(STAMP) ## make PyCUDA ready for this machine's NVIDIA driver, once more
	@$(call offline,$(PY)); $(PY) -m runner install-cuda --lock "$$lock" --log $(VENV)/cuda.log $$DMALAB_ARGS

wheels: $(STAMP) ## fetch all packages into the folder WHEELS, for a machine without network (CUDA=13.0: with a driver of that)
	@set --; [ -z "$$DMALAB_CUDA" ] || set -- "$$@" --cuda "$$DMALAB_CUDA"; $(PY) tools/wheels.py --to "$${DMALAB_WHEELS:-wheels}" "$$@"

lock: $(STAMP) ## write requirements/lock-*.txt anew, for each Python on PATH
	$(PY) tools/lock.py

schema: $(STAMP) ## write schema/experiment.schema.json from the models
	$(PY) -m runner schema --out schema/experiment.schema.json

reference: $(STAMP) ## write docs/reference/ from models, columns and commands, and the verdicts in docs/ from results/reference/
	PYTHONPATH=. $(PY) tools/reference.py

docs: $(STAMP) ## build the pages of docs/ into site/; a broken link is an error
	@$(PY) -c 'import material' 2>/dev/null || $(PY) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	@# With --quiet mkdocs drops its warnings before --strict counts them.
	@said=$$(NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict 2>&1) || { printf '%s\n' "$$said" >&2; exit 2; }
	@echo "Open site/index.html."

clean: ## remove .venv and caches; results stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist site
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

experiment-given:
	@[ -n "$$DMALAB_EXP" ] || { \
	  echo "Say which experiment, as in: make run EXP=overlap.yaml. A path works too. In experiments/ there are:"; \
	  (cd experiments && ls *.yaml | sed 's/^/  /'); exit 2; } >&2

$(STAMP): pyproject.toml $(wildcard requirements/lock-*.txt)
	@for python in $${DMALAB_PYTHON:-python3.13 python3.12 python3.11 python3.14 python3} none; do \
	  [ "$$python" != none ] || { echo "dmalab needs Python 3.11 or newer with its module venv, and found none$${DMALAB_PYTHON:+ as PYTHON=$$DMALAB_PYTHON};" \
	    "on Debian and Ubuntu: sudo apt-get install -y python3 python3-venv" >&2; exit 3; }; \
	  "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	$(call offline,"$$python"); \
	echo "Installing into $(VENV) with $$("$$python" --version): about 250 MB to fetch, some minutes without a word ..."; \
	"$$python" -m venv $(VENV) && \
	$(PY) -m pip install --quiet --disable-pip-version-check --constraint "$$lock" -e '.[dev]' || { \
	  echo "The installation into $(VENV) failed; what pip says stands above. It needs the package index once, or WHEELS=folder" \
	    "with what make wheels fetched where there is a network." >&2; exit 3; }
ifneq ($(DRIVER),)
	@echo "Found an NVIDIA driver ($(DRIVER)): making PyCUDA ready ..."; \
	$(call offline,$(PY)); \
	$(PY) -m runner install-cuda --lock "$$lock" --log $(VENV)/cuda.log || \
	  echo "Going on with the simulated device; $(VENV)/cuda.log has every word, and make cuda tries again." >&2
endif
	@touch $@
