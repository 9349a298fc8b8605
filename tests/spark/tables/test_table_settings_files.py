"""Table settings in a file, for brokers that refuse them as topic configs, and the commands' sentences."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("pyiceberg")

from click.testing import CliRunner

from ottla.cli.main import cli
from ottla.client.errors import ClientError
from ottla.spark.tables.lakes.boundary import Boundary
from ottla.spark.tables.topic_tables import read_tables_file
from ottla.testing import Broker

YAML = """
topics:
  orders:
    ottla.table.format: iceberg
    ottla.table.target.lag.ms: 1000
catalogs:
  lake: {type: rest, uri: "http://localhost:8181"}
"""
PROPERTIES = """
topic.orders.ottla.table.format=iceberg
topic.orders.ottla.table.target.lag.ms=1000
catalog.lake.type=rest
catalog.lake.uri=http://localhost:8181
"""


@pytest.mark.parametrize(("name", "text"), [("tables.yaml", YAML), ("tables.properties", PROPERTIES)])
def test_yaml_and_properties_say_the_same(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text)
    found = read_tables_file(tmp_path / name)
    assert found.topics == {"orders": {"ottla.table.format": "iceberg", "ottla.table.target.lag.ms": "1000"}}
    assert found.catalogs == {"lake": {"type": "rest", "uri": "http://localhost:8181"}}


@pytest.mark.parametrize(
    ("name", "text", "reason"),
    [
        ("t.yaml", "- a", "must be under 'topics' and 'catalogs'"),
        ("t.yaml", "tables: {}", "must be under 'topics' and 'catalogs'"),
        ("t.yaml", "topics: {orders: iceberg}", "must have a name with settings"),
        ("t.yaml", "topics: [", "are not YAML"),
        (
            "t.properties",
            "orders.format=iceberg",
            "is neither topic.NAME.ottla.table.format nor catalog.NAME",
        ),
    ],
)
def test_a_wrong_file_is_one_sentence(tmp_path: Path, name: str, text: str, reason: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ClientError, match=reason):
        read_tables_file(tmp_path / name)


def test_a_boundary_is_stored_as_versioned_json() -> None:
    boundary = Boundary("orders", "id", {1: 5, 0: 7})
    text = '{"version": 1, "topic": "orders", "topicId": "id", "offsets": {"0": 7, "1": 5}}'
    assert boundary.to_json() == text
    assert Boundary.from_json(text, "t") == boundary
    with pytest.raises(ClientError, match="newer version of ottla"):
        Boundary.from_json(text.replace("1", "2", 1), "t")
    with pytest.raises(ClientError, match="is damaged"):
        Boundary.from_json("{}", "t")
    with pytest.raises(ClientError, match="was deleted and created again"):
        boundary.check_topic("t", "orders", "other")
    with pytest.raises(ClientError, match="belongs to topic orders, not to topic sales"):
        boundary.check_topic("t", "sales", "id")


class TestSentences:
    """Bad input of operators, through the commands."""

    @pytest.fixture
    def fails(self, ottla_broker: Broker, tmp_path: Path) -> object:
        def run(*words: str) -> str:
            options = ["-b", ottla_broker.bootstrap_servers, "--warehouse", str(tmp_path / "lake")]
            found = CliRunner().invoke(cli, ["tables", *words, *options])
            assert isinstance(found.exception, ClientError), (found.output, found.exception)
            assert found.exception.message.endswith(".")
            return found.exception.message

        return run

    def test_a_topic_that_is_no_table(self, fails: object, ottla_topic: str) -> None:
        assert f"Topic {ottla_topic} is no table: set its config ottla.table.format" in fails(
            "describe", ottla_topic
        )  # type: ignore[operator]

    def test_an_unknown_format_in_a_file(self, fails: object, ottla_topic: str, tmp_path: Path) -> None:
        file = tmp_path / "tables.yaml"
        file.write_text(f"topics: {{{ottla_topic}: {{ottla.table.format: hudi}}}}")
        sentence = fails("describe", ottla_topic, "--tables", str(file))  # type: ignore[operator]
        assert (
            "has the invalid value hudi for ottla.table.format: it must be one of iceberg, delta." in sentence
        )

    def test_a_catalog_that_nobody_described(self, fails: object, ottla_broker: Broker) -> None:
        ottla_broker.create_topic(
            "uncatalogued", config={"ottla.table.format": "iceberg", "ottla.table.catalog": "glue"}
        )
        assert fails("describe", "uncatalogued").startswith("There is no catalog glue: describe it in")  # type: ignore[operator]

    def test_a_catalog_that_does_not_answer(
        self, fails: object, ottla_broker: Broker, tmp_path: Path
    ) -> None:
        ottla_broker.create_topic(
            "far", config={"ottla.table.format": "iceberg", "ottla.table.catalog": "remote"}
        )
        file = tmp_path / "tables.yaml"
        file.write_text('catalogs: {remote: {type: rest, uri: "http://127.0.0.1:1"}}')
        assert "Catalog remote cannot be opened" in fails("describe", "far", "--tables", str(file))  # type: ignore[operator]

    def test_a_warehouse_that_is_no_directory(
        self, fails: object, ottla_broker: Broker, tmp_path: Path
    ) -> None:
        ottla_broker.create_topic("homeless", config={"ottla.table.format": "iceberg"})
        (tmp_path / "lake").write_text("a file")
        assert "The warehouse" in fails("describe", "homeless")  # type: ignore[operator]

    def test_dropping_a_table_that_is_not_there(self, fails: object, ottla_broker: Broker) -> None:
        ottla_broker.create_topic("undropped", config={"ottla.table.format": "delta"})
        assert fails("drop", "undropped", "--yes") == "Topic undropped has no table yet."  # type: ignore[operator]
