"""Plans refuse impossible changes, and pages use every field of a form."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.connect.worker.workers import SINK, Worker, standalone_properties
from tests.console.browsing import Visitor, text_of, write
from tests.console.test_alerts import until
from tests.console.test_platform import FakeSql


@pytest.fixture
def topic(broker: Broker, names: Callable[[], str]) -> str:
    name = names()
    broker.create_topic(name)
    return name


def test_a_setting_that_the_broker_refuses_has_no_plan(visitor: Visitor, topic: str) -> None:
    refused = visitor.submit(f"topics/{topic}/settings", "/settings", name="max.message.bytes", value="abc")
    assert refused.status_code == 400
    assert "max.message.bytes" in text_of(refused)
    assert "This is what would happen" not in refused.text


def test_a_compacted_topic_is_not_emptied_and_that_is_said_before_its_name_is_typed(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    name = names()
    broker.create_topic(name, config={"cleanup.policy": "compact"})
    refused = visitor.submit(f"topics/{name}/partitions", "/delete-records")
    assert refused.status_code == 400
    assert "is compacted" in text_of(refused)


def test_a_typed_offset_or_time_needs_no_other_choice(broker: Broker, visitor: Visitor, topic: str) -> None:
    write(broker, topic, [b"%d" % number for number in range(9)], partition=0, timestamp=1_700_000_000_000)
    write(broker, topic, [b"late"], partition=0, timestamp=1_768_000_000_000)
    where = f"topics/{topic}/messages"
    found = visitor.json(where, **{"from": "newest", "offset": "7"})["messages"]
    assert [each["offset"] for each in found] == [7, 8, 9]
    found = visitor.json(where, **{"from": "newest", "offset": "", "time": "2026-01-01T00:00"})["messages"]
    assert [each["offset"] for each in found] == [9]
    found = visitor.json(where, **{"from": "newest", "offset": "", "time": ""})["messages"]
    assert [each["offset"] for each in found] == list(range(9, -1, -1))


def test_the_links_of_an_export_take_the_number_of_the_form(
    broker: Broker, visitor: Visitor, topic: str
) -> None:
    write(broker, topic, [b"x"] * 60, partition=0)
    page = visitor.get(f"topics/{topic}/messages", limit=25)
    links = [
        each.replace("&amp;", "&") for each in re.findall(r'href="([^"]*format=json&amp;[^"]*)"', page.text)
    ]
    assert [len(visitor.http.get(each).json()) for each in links] == [25, 60]


def test_a_chart_says_how_many_partitions_it_leaves_out(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    name = names()
    broker.create_topic(name, 12)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": name})
    consumer.commit(offsets=[TopicPartition(name, number, 0) for number in range(12)], asynchronous=False)
    consumer.close()
    until(lambda: "The 8 partitions with the largest lag, of 12." in visitor.get(f"groups/{name}/lag").text)


@pytest.fixture(scope="module")
def sql() -> Iterator[FakeSql]:
    made: list[FakeSql] = []

    def make() -> FakeSql:
        made.append(FakeSql())
        return made[0]

    with InBackground(make, "sql"):
        yield made[0]


def test_sql_says_that_an_insert_is_done_and_the_audit_log_holds_changes_only(
    open_console: Callable[..., InBackground], sql: FakeSql
) -> None:
    with Visitor(open_console(cluster={"sql": sql.urls[0]}).url) as visitor:
        page = visitor.submit("sql", "/sql", statement="INSERT INTO orders VALUES (1);")
        assert '<p class="flash" role="status">Done.</p>' in page.text
        visitor.submit("sql", "/sql", statement="LIST STREAMS;")
        visitor.submit("sql", "/sql", statement="-- nothing\nDROP STREAM x;")
        logged = [each["target"] for each in visitor.json("changes")["changes"] if each["action"] == "SQL"]
        assert logged == ["-- nothing\nDROP STREAM x;", "INSERT INTO orders VALUES (1);"]


def test_a_form_for_a_new_connector_complains_of_nothing_yet(
    broker: Broker, open_console: Callable[..., InBackground], tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("connect")
    with Worker(standalone_properties(broker.bootstrap_servers, folder / "offsets")) as worker:
        worker.wait_until_ready()
        with Visitor(open_console(cluster={"connect": worker.url}).url) as visitor:
            page = visitor.get("new-connector", **{"class": SINK})
            assert 'aria-invalid="true"' not in page.text
            assert 'class="problem"' not in page.text
            refused = visitor.send(visitor.form(page, "/new-connector"), connector_name="x")
            assert refused.status_code == 400
            assert 'aria-invalid="true"' in refused.text
