"""Queries through the server, on Spark."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from ottla.testing import Broker
from tests.sql.server.serving import Served, serving, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EARLIEST = {"auto.offset.reset": "earliest"}


class _Shared:
    """The tests' Spark, which a stopping server must not stop."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def __call__(self) -> SparkSession:
        return self._spark


@pytest.fixture(scope="module")
def on_spark(
    spark: SparkSession, broker: Broker, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    place: Path = tmp_path_factory.mktemp("checkpoints")
    with serving(broker.bootstrap_servers, _Shared(spark), checkpoints=str(place)) as served:
        served.server.session.shared.owns_spark = False
        served.done(
            "CREATE STREAM q (k INT KEY, x STRING, d DECIMAL(6, 2), b BYTES, m TIMESTAMP)"
            " WITH (kafka_topic='q', value_format='JSON', partitions=1);"
            "INSERT INTO q VALUES (1, 'one', 1.50, 'AQI=', '2026-01-01T12:00:00');"
            "INSERT INTO q VALUES (2, 'two', NULL, NULL, NULL);"
        )
        yield served


def test_a_pull_query(on_spark: Served) -> None:
    sql = "SELECT k, x, d, b, m, k / 2.0 AS h, ARRAY[k] AS a FROM q WHERE k = 1;"
    header, *rows = (
        json.loads(line) for line in on_spark.http.post("/query-stream", json={"sql": sql}).text.splitlines()
    )
    assert header["columnNames"] == ["K", "X", "D", "B", "M", "H", "A"]
    assert header["columnTypes"][:5] == ["INTEGER", "STRING", "DECIMAL(6, 2)", "BYTES", "TIMESTAMP"]
    assert header["columnTypes"][6] == "ARRAY<INTEGER>"
    assert rows == [[1, "one", 1.5, "AQI=", "2026-01-01T12:00:00.000", 0.5, [1]]]
    answer = on_spark.http.post("/query", json={"ksql": "SELECT k FROM q;"})
    header, *rows, last = answer.json()
    assert header["header"]["schema"] == "`K` INTEGER"
    assert last == {"finalMessage": "Query Completed"}
    assert [line[-1] for line in answer.text.splitlines()] == [",", ",", ",", "]"]
    assert sorted(row["row"]["columns"][0] for row in rows) == [1, 2]


def test_a_push_query_with_a_limit(on_spark: Served) -> None:
    sql = "SELECT k, UCASE(x) AS x FROM q EMIT CHANGES LIMIT 2;"
    answer = on_spark.http.post("/query", json={"ksql": sql, "streamsProperties": EARLIEST}).json()
    assert answer[0]["header"]["schema"] == "`K` INTEGER, `X` STRING"
    assert [row["row"]["columns"] for row in answer[1:-1]] == [[1, "ONE"], [2, "TWO"]]
    assert answer[-1] == {"finalMessage": "Limit Reached"}
    lines = on_spark.http.post("/query-stream", json={"sql": sql, "properties": EARLIEST}).text.splitlines()
    assert [json.loads(line) for line in lines[1:]] == [[1, "ONE"], [2, "TWO"]]


def test_statements_that_cannot_work_are_refused_before_the_first_row(on_spark: Served) -> None:
    for sql in ("SELECT y FROM q;", "SELECT NOTHING(x) FROM q EMIT CHANGES;", "SELECT * FROM none;"):
        refused = on_spark.http.post("/query-stream", json={"sql": sql})
        assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
        assert "\n\tat " not in refused.text


def test_persistent_queries_and_one_that_fails(on_spark: Served, broker: Broker) -> None:
    """The failing query is in ERROR, and the other continues."""
    created = on_spark.done(
        "CREATE STREAM good AS SELECT k, UCASE(x) AS x FROM q;"
        "CREATE STREAM gone (x STRING) WITH (kafka_topic='gone', partitions=1);"
        "CREATE STREAM bad AS SELECT x FROM gone;"
        "CREATE STREAM into_it (k INT KEY, x STRING) WITH (kafka_topic='into_it', partitions=1);"
        "INSERT INTO into_it SELECT k, x FROM q;",
        streamsProperties=EARLIEST,
    )
    ids = [each["commandStatus"]["queryId"] for each in created]
    assert created[0]["commandStatus"]["message"] == f"Created query with ID {ids[0]}"
    assert (ids[0][:10], ids[1], ids[4][:12]) == ("CSAS_GOOD_", None, "INSERTQUERY_")
    wait_until(lambda: len(broker.records("GOOD", 0)) == 2 and len(broker.records("into_it", 0)) == 2)
    listed = {each["id"]: each for each in on_spark.done("SHOW QUERIES;")[0]["queries"]}
    assert listed[ids[0]]["state"] == "RUNNING"
    assert listed[ids[0]]["sinkKafkaTopics"] == ["GOOD"]
    # The topic that it reads is deleted.
    on_spark.server.session.brokers.delete_topic("gone")
    wait_until(lambda: states(on_spark)[ids[2]] == "ERROR", 120)
    on_spark.done("INSERT INTO q VALUES (3, 'three', NULL, NULL, NULL);")
    wait_until(lambda: len(broker.records("GOOD", 0)) == 3)
    described = on_spark.done("DESCRIBE good;")[0]["sourceDescription"]
    assert [each["id"] for each in described["writeQueries"]] == [ids[0]]
    explained = on_spark.done(f"EXPLAIN {ids[0]};")[0]["queryDescription"]
    assert (explained["sources"], explained["sinks"], explained["state"]) == (["Q"], ["GOOD"], "RUNNING")
    refused = on_spark.ksql("DROP STREAM q;")
    assert refused.status_code == 400
    assert states(on_spark)[ids[0]] == "RUNNING"
    on_spark.done(f"TERMINATE {ids[0]}; TERMINATE {ids[2]}; TERMINATE {ids[4]};")
    assert on_spark.done("SHOW QUERIES;")[0]["queries"] == []
    assert on_spark.server._log.all() == []


def test_a_paused_query_is_paused_after_a_restart_and_goes_on_when_it_is_resumed(
    spark: SparkSession, broker: Broker, tmp_path: Path
) -> None:
    options: dict[str, Any] = {"checkpoints": str(tmp_path), "service_id": "pausing_"}
    with serving(broker.bootstrap_servers, _Shared(spark), **options) as served:
        served.server.session.shared.owns_spark = False
        served.done("CREATE STREAM u (k INT KEY, x INT) WITH (kafka_topic='u', partitions=1);")
        created = served.done("CREATE STREAM v AS SELECT * FROM u;", streamsProperties=EARLIEST)[0]
        query_id = created["commandStatus"]["queryId"]
        served.done("INSERT INTO u VALUES (1, 1);")
        wait_until(lambda: len(broker.records("V", 0)) == 1, 120)
        assert served.done(f"PAUSE {query_id};")[0]["commandStatus"]["message"] == "Query paused."
        assert states(served) == {query_id: "PAUSED"}
        served.done("INSERT INTO u VALUES (2, 2);")
    with serving(broker.bootstrap_servers, _Shared(spark), **options) as served:
        served.server.session.shared.owns_spark = False
        assert states(served) == {query_id: "PAUSED"}
        assert len(broker.records("V", 0)) == 1
        served.done(f"RESUME {query_id};")
        wait_until(lambda: len(broker.records("V", 0)) == 2, 120)
        assert states(served) == {query_id: "RUNNING"}
        served.done("DROP STREAM v DELETE TOPIC;")
        assert states(served) == {}


def states(served: Served) -> dict[str, str]:
    return {each["id"]: each["state"] for each in served.done("SHOW QUERIES;")[0]["queries"]}


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_twenty_clients_with_push_queries_at_once(on_spark: Served, broker: Broker) -> None:
    """Each client gets every row, half of them over HTTP/2, and the server still answers a new statement."""
    on_spark.done("CREATE STREAM many (k INT KEY, x STRING) WITH (kafka_topic='many', partitions=1);")
    clients = 20
    found: list[list[Any]] = [[] for _ in range(clients)]
    failures: list[BaseException] = []

    def follow(number: int) -> None:  # any other line is a query error
        sql = f"SELECT k, x, {number} AS client FROM many EMIT CHANGES;"
        http2 = number % 2 == 0
        try:
            with (
                httpx.Client(http1=not http2, http2=http2, timeout=400) as client,
                client.stream(
                    "POST", f"{on_spark.url}/query-stream", json={"sql": sql, "properties": EARLIEST}
                ) as answer,
            ):
                lines = answer.iter_lines()
                next(lines)
                for line in lines:
                    row = json.loads(line)
                    assert isinstance(row, list), row
                    found[number].append(row)
                    if len(found[number]) == 10:
                        return
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=follow, args=(number,)) for number in range(clients)]
    for thread in threads:
        thread.start()
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(5))
    on_spark.done(f"INSERT INTO many VALUES {rows};")
    wait_until(lambda: all(len(each) == 5 for each in found) or bool(failures), 400)
    assert not failures
    listed = [each for each in on_spark.done("SHOW QUERIES;")[0]["queries"] if each["queryType"] == "PUSH"]
    assert len(listed) == clients
    rows = ", ".join(f"({number}, 'row {number}')" for number in range(5, 10))
    on_spark.done(f"INSERT INTO many VALUES {rows};")
    for thread in threads:
        thread.join(400)
    assert not failures
    for number, each in enumerate(found):
        assert each == [[row, f"row {row}", number] for row in range(10)]
    wait_until(lambda: on_spark.done("SHOW QUERIES;")[0]["queries"] == [])
    assert not on_spark.server.session.engine.spark.streams.active
