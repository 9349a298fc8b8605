"""The console with a real Ottla SQL server. Statements need no Spark."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor
from tests.sql.server.serving import Served, serving


@pytest.fixture(scope="module")
def served(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    place: Path = tmp_path_factory.mktemp("checkpoints")
    with serving(broker.bootstrap_servers, checkpoints=str(place)) as running:
        yield running


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground], served: Served) -> InBackground:
    return open_console(cluster={"sql": served.url})


def test_statements_are_answered_as_tables(visitor: Visitor) -> None:
    source = "WITH (kafka_topic='sql-orders', value_format='JSON', partitions=1)"
    statement = f"CREATE STREAM orders (id INT KEY, x STRING) {source};"
    page = visitor.submit("sql", "/sql", statement=statement)
    assert page.status_code == 200, page.text
    assert "SUCCESS" in page.text
    page = visitor.submit("sql", "/sql", statement="LIST STREAMS;")
    assert "ORDERS" in page.text
    assert "sql-orders" in page.text
    page = visitor.submit("sql", "/sql", statement="CREATE NONSENSE;")
    assert page.status_code == 400
    assert visitor.get("flow").status_code == 200
