"""Restoring queries after a restart, and supervising them; without Spark, which fails to start here."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ottla.protocol.internal_topics import SQL_QUERIES_TOPIC
from ottla.sql.brokers import Brokers
from ottla.sql.executing.running_queries import Running, RunningQueries
from ottla.sql.server.query_log import LoggedQuery, QueryLog
from ottla.sql.server.supervisor import Supervisor
from ottla.testing import Broker
from tests.sql.server.serving import serving


class Query:
    """The used part of a Spark query."""

    def __init__(self, failure: str | None = None) -> None:
        self.failure = failure
        self.isActive = failure is None

    def exception(self) -> Exception | None:
        return None if self.failure is None else RuntimeError(self.failure)

    def stop(self) -> None:
        self.isActive = False


def test_the_log_is_of_one_service_and_in_the_order_of_starting(broker: Broker) -> None:
    brokers = Brokers(broker.bootstrap_servers)
    log, other = QueryLog(brokers, "one_"), QueryLog(brokers, "two_")
    assert log.load() == []
    first = LoggedQuery("B", "CREATE STREAM b …", {"auto.offset.reset": "earliest"}, log.next_number())
    log.put(first)
    second = LoggedQuery("A", "CREATE STREAM a …", number=log.next_number(), query_id="CSAS_A_1", paused=True)
    log.put(second)
    other.load()
    other.put(LoggedQuery("A", "another"))
    log.put(LoggedQuery("GONE", "CREATE STREAM gone …", number=log.next_number()))
    log.remove("GONE")
    assert log.next_number() > second.number > first.number
    read = QueryLog(brokers, "one_")
    assert read.load() == [first, second]
    brokers.close()


def test_a_query_that_cannot_be_read_is_named_in_the_log_and_holds_up_no_other(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    brokers = Brokers(broker.bootstrap_servers)
    log = QueryLog(brokers, "damaged_")
    log.load()
    good = LoggedQuery("GOOD", "CREATE STREAM good …")
    log.put(good)
    values = (b"{", b"[]", b'{"statement": "x", "version": 2}')
    brokers.produce(
        SQL_QUERIES_TOPIC,
        [(f"damaged_/BAD{number}".encode(), value, None) for number, value in enumerate(values)],
    )
    assert QueryLog(brokers, "damaged_").load() == [good]
    assert "The query BAD0 in" in caplog.text
    assert (
        "The query BAD2 in __ottla_sql_queries cannot be read, and does not run: a newer version"
        in caplog.text
    )
    brokers.close()


def test_a_query_that_cannot_be_started_stays_promised(broker: Broker, tmp_path: Path) -> None:
    brokers = Brokers(broker.bootstrap_servers)
    log = QueryLog(brokers, "failing_")
    log.load()
    log.put(LoggedQuery("X", "CREATE STREAM x AS SELECT * FROM missing;", query_id="CSAS_X_7"))
    with serving(broker.bootstrap_servers, checkpoints=str(tmp_path), service_id="failing_") as served:
        [listed] = served.done("SHOW QUERIES;")[0]["queries"]
        assert (listed["id"], listed["state"]) == ("CSAS_X_7", "ERROR")
        health = served.http.get("/healthcheck").json()
        assert (health["isHealthy"], health["details"]["commandRunner"]) == (False, {"isHealthy": False})
        # The failing query does not block the others.
        served.done("CREATE STREAM y (x INT) WITH (kafka_topic='y', partitions=1); DROP STREAM y;")
    assert [each.key for each in log.load()] == ["X"]
    with serving(broker.bootstrap_servers, checkpoints=str(tmp_path), service_id="failing_") as served:
        assert served.done("TERMINATE CSAS_X_7;")[0]["commandStatus"]["message"] == "Query terminated."
        assert served.done("SHOW QUERIES;")[0]["queries"] == []
    assert log.load() == []
    brokers.close()


def test_a_statement_that_fails_is_not_promised(broker: Broker, tmp_path: Path) -> None:
    with serving(broker.bootstrap_servers, checkpoints=str(tmp_path), service_id="refusing_") as served:
        assert served.ksql("CREATE STREAM x AS SELECT * FROM missing;").status_code == 400
        assert served.ksql("INSERT INTO missing SELECT * FROM missing;").status_code == 400
        assert served.server.commands._log.all() == []


def held(**queries: Any) -> RunningQueries:
    made = RunningQueries()
    for name, query in queries.items():
        plan: Any = None
        made.add(Running(name, query, "SINK", "", plan, start_again=Query))
    return made


def test_what_has_failed_is_started_again_and_what_is_paused_is_not() -> None:
    queries = held(well=Query(), failed=Query("a reason"), paused=Query())
    queries.pause("paused")
    session = SimpleNamespace(queries=queries, uses_spark=False)
    commands: Any = SimpleNamespace(session=session, lock=threading.RLock(), not_started={})
    supervisor = Supervisor(commands, lambda: None, first=0.0)
    well, failed = queries.get("well"), queries.get("failed")
    assert well is not None
    assert failed is not None
    before = well.query
    supervisor.look()  # notices the failure
    assert failed.state == "ERROR: a reason."
    supervisor.look()
    assert failed.state == "RUNNING"
    assert well.query is before
    paused = queries.get("paused")
    assert paused is not None
    assert paused.state == "PAUSED"
    queries.resume("paused")
    assert paused.state == "RUNNING"


def test_it_waits_longer_each_time() -> None:
    commands: Any = SimpleNamespace(not_started={})
    supervisor = Supervisor(commands, lambda: None, first=15.0, longest=50.0)
    seen = [now for now in range(0, 200) if supervisor._is_due("q", 1000.0 + now, "a reason")]
    assert seen == [15, 45, 95, 145, 195]
