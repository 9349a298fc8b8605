"""The Python code in docs/how-to/read-topics-in-spark.md runs as printed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("pyspark")

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.testing import Broker
from tests.client.registry_server import RegistryServer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "read-topics-in-spark.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)


@pytest.fixture(scope="module", autouse=True)
def topics(ottla_broker: Broker) -> None:
    for topic in ("orders", "tweets", "tweets-dead", "liked-tweets", "totals", "all-orders"):
        ottla_broker.create_topic(topic)


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    order = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
    with RegistryServer() as server:
        with SchemaRegistry(RegistrySettings((server.url,))) as client:
            client.register("orders-value", Schema(order))
        yield server.url


@pytest.fixture
def names(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """The environment of a block: an empty working directory, and `totals`, which the page only mentions."""
    monkeypatch.chdir(tmp_path)
    stream = session.readStream.format("rate").load()
    yield {"totals": stream.selectExpr("CAST(value AS STRING) AS user", "value AS total")}
    for query in session.streams.active:
        query.stop()


@pytest.mark.parametrize("code", BLOCKS, ids=lambda code: code.strip().splitlines()[-1][:40])
def test_code_runs_as_it_is_printed(
    names: dict[str, Any], ottla_broker: Broker, registry: str, code: str
) -> None:
    code = code.replace("localhost:9092", ottla_broker.bootstrap_servers)
    exec(code.replace("http://localhost:8081", registry), names)
