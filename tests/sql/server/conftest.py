from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")
pytest.importorskip("httptools")

from ottla.testing import Broker

if TYPE_CHECKING:
    from tests.sql.server.serving import Served


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def served(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A server without Spark: statements that need it fail."""
    from tests.sql.server.serving import serving

    place: Path = tmp_path_factory.mktemp("checkpoints")
    with serving(broker.bootstrap_servers, checkpoints=str(place)) as running:
        running.done(
            "CREATE STREAM s (k INT KEY, x STRING, n ARRAY<BIGINT>)"
            " WITH (kafka_topic='s', value_format='JSON', partitions=1);"
            "CREATE TABLE t (k STRING PRIMARY KEY, p DECIMAL(4, 2), q STRUCT<a INT, b MAP<STRING, DOUBLE>>)"
            " WITH (kafka_topic='t', value_format='JSON', partitions=2);"
            "INSERT INTO s VALUES (1, 'one', ARRAY[1]); INSERT INTO s VALUES (2, 'two', NULL);"
        )
        yield running
