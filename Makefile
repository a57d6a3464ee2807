# inalab: `make help` lists what there is. Set-up happens by itself: system packages, then .venv.

unexport PYTHONDONTWRITEBYTECODE # without bytecode each start of Python would compile PyTorch again, for ten seconds
-include /etc/inalab.mk # a machine's own choices, as provision.sh makes them for a VM
EXPERIMENT ?= quickstart
TARGET ?=# empty: the experiment's own, or embedded
SEED ?= 1
SET ?=
PYTHON ?= python3
TESTS_AT_A_TIME ?= $(if $(filter bmv2,$(TARGET)),1,$(shell echo $$((2 * $$(nproc)))))
VENV ?= .venv
BIN := $(VENV)/bin
ON = $(if $(TARGET),--target $(TARGET))
READY := $(VENV)/.ready
READY_EXTRAS := $(VENV)/.ready-extras# READY, and what tests and other extras need

.DEFAULT_GOAL := help
.PHONY: help setup experiment figures test test-unit test-deep test-network test-labs test-steady mutants sanitize fuzz programs docs release bench lint format doctor lock clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 22
	@echo 'Variables: EXPERIMENT=$(EXPERIMENT) TARGET=$(TARGET) SEED=$(SEED) SET="key=value ..."'

setup: $(if $(filter 1,$(EXTRAS) $(BROWSER)),$(READY_EXTRAS),$(READY)) ## install system packages and .venv; EXTRAS=1: what tests need, too; BROWSER=1: and Chromium and tshark

$(READY): requirements.lock pyproject.toml setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) sh setup.sh
	@touch $@

$(READY_EXTRAS): requirements.lock requirements-extras.lock requirements-torchft.lock pyproject.toml setup.sh
	@PYTHON=$(PYTHON) VENV=$(VENV) EXTRAS=1 sh setup.sh
	@touch $@ $(READY)

ifeq ($(BROWSER),1)
$(READY_EXTRAS): again # set-up may have run before without the browser
endif
.PHONY: again

experiment: $(READY) ## run EXPERIMENT on TARGET; says where its plots are
	@$(BIN)/inalab run $(EXPERIMENT) $(ON) --seed $(SEED) $(foreach s,$(SET),--set $(s))

figures: $(READY) ## run all experiments on TARGET, some hours; QUICK=1: minutes. RESUME=1 goes on where it stopped
	@$(BIN)/inalab run all $(ON) --seed $(SEED) $(if $(QUICK),--quick) $(if $(RESUME),--resume)

# side by side, because tests wait for timers and processes; those that must be alone take their turn
USUAL = -n $(TESTS_AT_A_TIME) --dist worksteal $(ON) --timeout=900
PYTEST = $(BIN)/python -m pytest $(USUAL) $(if $(SLOWEST),--durations=$(SLOWEST))

test: $(READY_EXTRAS) ## run all tests but the deep ones, networks on TARGET; SLOWEST=10 names those that took longest. DEEP=3/10: and a tenth of the deep ones
	@$(PYTEST) $(if $(DEEP),--deep-share $(DEEP))

test-unit: $(READY_EXTRAS) ## run those of them that need no network
	@$(PYTEST) tests/unit

test-network: $(READY_EXTRAS) ## run all tests that make networks, the deep ones too
	@$(PYTEST) tests/network --deep

test-labs: $(READY_EXTRAS) ## check every lab's solution, starter and wrong solutions, and draw its figure
	@$(PYTEST) tests/labs --deep

test-deep: $(READY_EXTRAS) ## run all tests that need no network, on many more examples, other ones each time
	@$(PYTEST) tests/unit tests/deep --deep --hypothesis-profile=deep --timeout=7200

test-steady: $(READY_EXTRAS) ## run all tests TIMES=10 times beside two busy processes, and list what failed
	@$(BIN)/python -m tests.steady --times $(or $(TIMES),10) -- $(USUAL)

mutants: $(READY_EXTRAS) ## put mistakes into a copy of the code: tests must notice each. SHARE=3/10: the third tenth of them
	@$(BIN)/python -m tests.mutants $(if $(SHARE),--share $(SHARE))

sanitize: $(READY_EXTRAS) ## try 10^6 packets and commands under sanitizers, and 2000 changed programs, some minutes
	@$(BIN)/python -m tests.sanitize --seed $(SEED)
	@$(BIN)/python -m tests.sanitize.sources --seed $(SEED)

fuzz: $(READY_EXTRAS) ## try 10^7 packets and 10^6 commands under sanitizers, an hour; PIECE=3/20: the third twentieth of them
	@$(BIN)/python -m tests.sanitize --seed $(SEED) --packets 10000000 --commands 1000000 $(if $(PIECE),--piece $(PIECE))

programs: $(READY_EXTRAS) ## compare PROGRAMS=100 random P4 programs with an interpreter; TARGET=bmv2: with real p4c and BMv2, as root
	@$(BIN)/python -m tests.p4_comparison $(if $(filter bmv2,$(TARGET)),--bmv2) $(if $(PROGRAMS),--programs $(PROGRAMS)) $(if $(filter-out 1,$(SEED)),--seed $(SEED))

docs: $(READY_EXTRAS) ## write what code and kept runs say into docs/, and build the site; KEEP=results/NAME/RUN keeps that run first
	@$(if $(KEEP),$(BIN)/python -m inalab.testbed.document.kept $(KEEP))
	@$(BIN)/python -m inalab.testbed.document
	@$(BIN)/inalab network --set loss=0.01 --set straggler=slow --set straggler.rank=5 --out docs/network.svg
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict --quiet

release: $(READY_EXTRAS) ## build sdist and wheel in dist/; install the wheel into an empty environment, and use it there
	@$(BIN)/python -m tests.release

bench: $(READY) ## measure packets/s of the switch and ATE/s of workers
	@$(BIN)/python -m inalab.testbed.command.bench

lint: $(READY_EXTRAS) ## check format, rules and types
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy

format: $(READY_EXTRAS) ## bring the code into its format
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

doctor: $(READY) ## tell what this machine has and lacks
	@$(BIN)/inalab doctor

lock: $(READY_EXTRAS) ## write requirements.lock and requirements-extras.lock from what .venv has
	@$(BIN)/python -m inalab.testbed.command.lock

clean: ## remove .venv and caches; results stay
	@rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis build dist *.egg-info
