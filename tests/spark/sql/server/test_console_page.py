"""The SQL page of the console, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor
from tests.spark.sql.server.serving import serving

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


def test_rows_of_a_select_stream_in(spark: SparkSession, broker: Broker, tmp_path: Path) -> None:
    with serving(broker.bootstrap_servers, lambda: spark, checkpoints=str(tmp_path)) as served:
        served.server.session._owns_spark = False
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
