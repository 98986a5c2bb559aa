# `make demo` runs the main job, `make test` passes the tests; both set everything up by themselves.
PYTHON ?= python3.11
VENV   := .venv
BIN    := $(VENV)/bin
STAMP  := $(VENV)/.installed
PURE := tests/test_arrows.py tests/test_circles.py tests/test_syntax.py tests/test_how_to_add.py tests/test_words.py tests/test_subjects.py tests/model tests/wire tests/flows \
	tests/plan tests/history tests/gateway/session tests/gateway/composed tests/gateway/process \
	tests/system/nemesis/test_schedule.py
# To collect eight thousand tests for two hundred takes a minute.
LONG = $(shell grep -rlE --include='test_*.py' 'mark\.long' tests)
SOAK = $(shell grep -rlE --include='test_*.py' 'mark\.soak' tests)

.PHONY: setup demo test long again quick soak lint docs bench lock clean

setup: $(STAMP)

# Byte code is compiled at once: the environment may forbid writing it later, and Airflow then starts three times slower.
$(STAMP): requirements.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	-$(BIN)/python -m compileall -q -j 0 $(VENV)/lib > $(VENV)/compileall.log
	touch $(STAMP)

# KEEP=1 leaves everything running to look around.
demo: setup
	$(BIN)/switchyard demo $(if $(KEEP),--keep)

# Files side by side: most of their time they wait for brokers. Not reordered, so that the short ones of `wire` come last
# and no stack runs on alone at the end. Each stack takes ports and folders of its own. Two cores carry three workers:
# two of them take 21 minutes and leave a third of the machine idle, three take 13.
test: setup
	$(BIN)/python -m pytest --numprocesses $(or $(WORKERS),3) --dist loadfile --no-loadscope-reorder -m "not soak and not long" $(ARGS)

# The few files that take minutes each: whole runs in a real Airflow and on Spark, faults in the orders that once cost
# records. `.ci/run` runs as many of them after the others as its budget allows: START_NO_FILE_AFTER is a time in seconds
# since 1970 (tests/budget.py).
long: setup
	$(BIN)/python -m pytest --numprocesses $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder -m "long and not soak" $(LONG) \
		$(if $(START_NO_FILE_AFTER),--start-no-file-after=$(START_NO_FILE_AFTER)) $(ARGS)

# After `test` or `long`: the few that failed, once more and alone; never one that lost a record (tests/again.py).
again: setup
	$(BIN)/python -m pytest --again $(ARGS)

# What needs no other process: for people at work, after every change.
quick: setup
	$(BIN)/python -m pytest --numprocesses $(or $(WORKERS),2) -m "not soak and not stack and not airflow" $(PURE) $(ARGS)

# Long loads, and faults at random instants, on real parts: about an hour. Each run draws its own seeds, and prints them.
# NIGHT=1 repeats the random ones four times as often: 110 rounds instead of 30, three hours.
soak: setup
	$(if $(NIGHT),CROSSING_ROUNDS=25 RACING_ROUNDS=20 ANY_ORDER_ROUNDS=40) $(BIN)/python -m pytest --numprocesses $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder -m soak $(SOAK) $(ARGS)

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python .ci/subjects.py

# The documentation as a site in `site/`; fails on links that lead nowhere. `.venv/bin/zensical serve` shows it.
docs: setup
	$(BIN)/zensical build --clean --strict

bench: setup
	$(BIN)/python -m bench $(ARGS)

# After a change of requirements.in: every transitive version, with hashes.
lock: setup
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --generate-hashes --python-version 3.11 --no-header --no-emit-index-url requirements.in --output-file requirements.txt

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
