"""The console's SQL page and graph, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor
from tests.sql.server.serving import serving, wait_until

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows_of_a_select_stream_in(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with serving(broker.bootstrap_servers, lambda: spark, checkpoints=str(tmp_path)) as served:
        served.server.session.shared.owns_spark = False
        served.done(
            "CREATE STREAM streamed (k INT KEY, x STRING)"
            " WITH (kafka_topic='streamed', value_format='JSON', partitions=1);"
            "INSERT INTO streamed VALUES (1, 'one'); INSERT INTO streamed VALUES (2, 'two');"
        )
        cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers}, sql=served.url)
        settings = ConsoleSettings((cluster,), port=0)
        with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
            page = visitor.submit("sql", "/sql", statement="SELECT k, x FROM streamed;")
            path = page.text.partition('data-stream="')[2].partition('"')[0].replace("&amp;", "&")
            answer = visitor.http.get(path, timeout=120)
            assert "K INTEGER" in answer.text
            assert "<td>two</td>" in answer.text
            assert "event: end" in answer.text


def test_the_graph_shows_how_fast_a_query_is(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with serving(broker.bootstrap_servers, lambda: spark, checkpoints=str(tmp_path)) as served:
        served.server.session.shared.owns_spark = False
        served.done(
            "CREATE STREAM flowing (k INT KEY, x STRING)"
            " WITH (kafka_topic='flowing', value_format='JSON', partitions=1);"
            "CREATE STREAM copied WITH (kafka_topic='copied') AS SELECT * FROM flowing EMIT CHANGES;",
            streamsProperties={"auto.offset.reset": "earliest"},
        )
        cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers}, sql=served.url)
        settings = ConsoleSettings((cluster,), port=0)
        with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
            found: dict[tuple[str, str], Any] = {}

            def flows() -> bool:
                served.done("INSERT INTO flowing VALUES (1, 'one');")
                data = visitor.json("flow")
                found.update({(each["source"], each["target"]): each for each in data["edges"]})
                into = [each for (source, _), each in found.items() if source == "topic:flowing"]
                return any(each["batch_seconds"] is not None and each["lag"] is not None for each in into)

            wait_until(flows, 120)
            # Its monitoring group reads from the topic too.
            [query] = [
                target
                for source, target in found
                if source == "topic:flowing" and target.startswith("query:")
            ]
            assert (query, "topic:copied") in found
            assert "a batch" in found["topic:flowing", query]["label"]
