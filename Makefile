# Each target sets up what it needs, given Python 3.11 or newer. `make PYTHON=python3.14 VENV=out/venv test` names another
# Python and another folder for its libraries.
export VENV := .venv
BIN := "$(VENV)/bin"
# CACHE names another folder for what pytest keeps of a run, not by the environment: tests start pytest too.
PYTEST := $(BIN)/python -m pytest $(CACHE:%=-o cache_dir=%)
# The tests of a file share what they start, so a file stays in one process; the long files come first (tests/conftest.py).
# A third of their time is waiting, so three processes fill two cores.
WORKERS ?= 3
SIDE_BY_SIDE := -n $(WORKERS) --dist loadfile --no-loadscope-reorder
EVERYDAY := -m "not long and not crash and not agents and not clients and not browser and not image$(WITHOUT:%= and not %)"
# The files whose tests have a mark name it; pytest would read all files, which takes ten seconds each time.
marked = $(shell grep -rl --include='test_*.py' 'mark\.$@' tests)
OUT ?= out/message_volume
STATE ?= .emulator
MART ?= out/mart
REPORT ?= out/report.html
HOURS ?= 8
AGENTS ?= $(VENV)/agents
CLIENTS ?= $(VENV)/clients
IMAGE ?= $(VENV)/image
# What `again` repeats finds what it had.
long again: export POSTROOM_TEST_ALL_EXAMPLES := 1
agents again: export POSTROOM_TEST_AGENTS := $(AGENTS)/bin
clients again: export POSTROOM_TEST_CLIENTS := $(CLIENTS)
image again: export POSTROOM_TEST_IMAGE := $(IMAGE)
# The tests start hundreds of processes: without compiled files each of them would compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help run test everyday again coverage check long crash simulate soak agents clients browser image bench analyse report docs format clean

help:  ## print this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

run:  ## start everything on this machine, to chat with it
	@infra/setup.sh run
	@$(BIN)/emulator run

test: check everyday  ## run all checks and the everyday tests

everyday:  ## run the everyday tests alone
	@infra/setup.sh dev
	$(PYTEST) -q $(SIDE_BY_SIDE) $(EVERYDAY)

again:  ## run the tests that failed last once more, one after the other
	@infra/setup.sh dev
	$(PYTEST) -q --last-failed --last-failed-no-failures none

coverage:  ## run the everyday tests, and print how much they run and the ten files that they run the least of
	@infra/setup.sh dev
	$(PYTEST) -q $(SIDE_BY_SIDE) $(EVERYDAY) --cov --cov-report=
	@$(BIN)/python -m coverage report --sort=cover | sed -n '1,12p;$$p'

check:  ## check style, types and import rules
	@infra/setup.sh dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --num-workers 2
	$(BIN)/lint-imports

long:  ## run the bounded fuzz and soak tests, and all examples of the property tests
	@infra/setup.sh dev
	$(PYTEST) -q $(SIDE_BY_SIDE) --timeout 1200 -m "(long or hypothesis) and not crash"

crash:  ## break everything, then check every promise; CRASH_SEED replays, CRASH_SCALE=20 takes a night
	@infra/setup.sh dev
	$(PYTEST) -q -rfEs --timeout $(if $(CRASH_SCALE),0,1200) -m $@ $(marked)

simulate:  ## run new simulated worlds for HOURS, and cut each that fails down to what matters; SEED=7 tells one
	@infra/setup.sh dev
	$(BIN)/python -m tests.simulation $(if $(SEED),--seed $(SEED) --trace,--hours $(HOURS))

soak:  ## run 24 virtual hours of mixed traffic in 25 minutes, and draw what grows: out/soak
	@infra/setup.sh dev
	$(BIN)/python -m tests.soak

agents:  ## install the real agents' programs, and run them against a scripted model
	@infra/setup.sh dev
	@infra/agents.sh "$(AGENTS)"
	$(PYTEST) -q -rfE --timeout-method signal -m $@ $(marked)

browser:  ## drive the chat page, the operators' page and the report in a headless Chromium
	@infra/setup.sh dev
	@infra/setup.sh browser
	$(PYTEST) -q -rfE --timeout-method signal -m $@ $(marked)

clients:  ## install client libraries of others, drive the fake platforms with them, and read metrics and traces
	@infra/setup.sh dev
	@infra/clients.sh "$(CLIENTS)"
	$(PYTEST) -q -rfE --timeout-method signal -m $@ $(marked)

image:  ## build the image twice, compare, and run it in containers, also by Compose: minutes, as root on Debian
	@infra/setup.sh dev
	@infra/image.sh "$(IMAGE)"
	$(PYTEST) -q -rfE --timeout 1800 --timeout-method signal -m $@ $(marked)

docs:  ## make a site of the documentation, with search, in out/site
	@infra/setup.sh docs
	$(BIN)/python -m sphinx -q -W -c docs . out/site
	@echo '<!doctype html><meta http-equiv="refresh" content="0; url=docs/README.html"><title>Postroom</title>' > out/site/index.html
	@echo 'The site: file://$(CURDIR)/out/site/index.html'

bench:  ## measure speeds, as ratios to the raw limit
	@infra/setup.sh dev
	@infra/setup.sh jdbc
	$(BIN)/python -m tests.benchmarks

analyse:  ## compute the message volume with Spark, from the replica of the running emulator
	@infra/setup.sh dev
	@$(BIN)/emulator exec --state "$(STATE)" -- sh -c '$(BIN)/python -m spark_jobs message_volume --replica "$$EMULATOR_REPLICA_URL" --out "$(OUT)"'

report:  ## make out/report.html, which says how the postroom of the running emulator is doing
	@infra/setup.sh dev
	@$(BIN)/emulator exec --state "$(STATE)" -- sh -c '$(BIN)/python -m spark_jobs publish --replica "$$EMULATOR_REPLICA_URL" --mart "$(MART)"'
	@$(BIN)/python -m spark_jobs report --mart "$(MART)" --out "$(REPORT)"

format:  ## format the code
	@infra/setup.sh dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## remove what the targets made, but not the emulator's state
	rm -rf "$(VENV)" out build *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .coverage
