# One command per need, the same here and in CI. Needs Python 3.11 or newer; .ci/java sees to Java.
PYTHON ?= python3
BIN := .venv/bin
COMPILE = $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --custom-compile-command 'make lock'
# Sets JAVA_HOME for the commands behind it.
JAVA = JAVA_HOME=$$(.ci/java) && export JAVA_HOME
# Tests start many JVMs for seconds each; where no archive can be made they take longer, no more.
CLASSES = { $(BIN)/python -m pipelines.platform.class_archive >/dev/null || true; }

.PHONY: setup demo docs test test-long test-live lint bench lock release wheel archive clean

setup: .venv/ready

.venv/ready: pyproject.toml .ci/build.lock .ci/requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed, found " + sys.version.split()[0] + "; name one with make PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --require-hashes -r .ci/build.lock
	$(BIN)/pip install --quiet --require-hashes --no-build-isolation -r .ci/requirements.lock
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable .
	@touch $@

demo: setup
	@$(JAVA) && $(BIN)/python conf/demo/play.py

# What the pages say of the code, written anew, then the site in dist/docs. A link that leads nowhere
# is an error.
docs: setup
	$(BIN)/python -m pipelines.documentation
	$(BIN)/sphinx-build --quiet --fresh-env --fail-on-warning --keep-going docs dist/docs
	@echo dist/docs/index.html

# Two workers, each with a Spark of its own; conftest.py says what each takes.
test: setup
	@$(JAVA) && $(CLASSES) && $(BIN)/pytest -n 2 --dist loadscope --no-loadscope-reorder

# Again what a browser is needed for, which is skipped where there is none.
test-long: setup
	@.ci/browser
	@$(JAVA) && $(CLASSES) && $(BIN)/pytest -m "slow or long or browser"

# Against real database servers; what is not there and cannot be installed is skipped with one line.
# INGEST_LIVE_SEEDS: how many loads are played on each; INGEST_LIVE_ROWS: rows of the large table.
test-live: .venv/live
	@.ci/servers
	@$(JAVA) && $(CLASSES) && $(BIN)/pytest -m live -rs

.venv/live: .venv/ready .ci/live.lock
	$(BIN)/pip install --quiet --require-hashes -r .ci/live.lock
	@touch $@

lint: setup
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

bench: setup
	@$(JAVA) && $(BIN)/python -m tests.bench

lock: setup
	$(COMPILE) --group build --output-file .ci/build.lock
	$(COMPILE) --group dev --all-extras --output-file .ci/requirements.lock pyproject.toml
	$(COMPILE) --group live --constraint .ci/requirements.lock --output-file .ci/live.lock
	$(BIN)/python .ci/lock_jars.py pipelines/platform/delta.jars pipelines/platform/kafka.jars tests/support/kafka_broker.jars tests/support/rocketmq_server.jars tests/support/s3.jars tests/live/canal.jars

# Wheel, sdist and bill of materials in dist/release, looked through; the wheel plays the demo in an
# environment of its own.
release: setup
	@$(JAVA) && $(BIN)/python .ci/release.py dist/release

wheel: setup
	$(BIN)/pip wheel --quiet --no-deps --no-build-isolation --wheel-dir dist .

# The wheel with what it depends on, for executors that have neither: docs/spark-submit.md.
archive: wheel
	rm -rf dist/archive
	$(BIN)/uv pip install --quiet --target dist/archive --constraint .ci/requirements.lock dist/*.whl
	tar -czf dist/ingest.tar.gz -C dist/archive .

clean:
	rm -rf .venv .cache dist warehouse .mypy_cache .pytest_cache .ruff_cache .hypothesis
