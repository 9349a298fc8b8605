"""Changes through the console: each shows a plan first and carries it out. Another client checks the cluster."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource

from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.broker.transactions.wire_producer import WireProducer
from tests.console.browsing import Form, Visitor, text_of, write
from tests.wire_client import WireClient


@pytest.fixture(scope="module")
def audit_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("audit") / "audit.jsonl"


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground], audit_file: Path) -> InBackground:
    return open_console(audit_file=audit_file)


@pytest.fixture(scope="module")
def admin(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


@pytest.fixture
def topic(broker: Broker, names: Callable[[], str]) -> str:
    name = names()
    broker.create_topic(name, 2)
    return name


def settings_of(admin: AdminClient, topic: str) -> dict[str, Any]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    return {
        name: each.value for name, each in admin.describe_configs([resource])[resource].result(20).items()
    }


def plan_of(visitor: Visitor, page: Any, action: str) -> Form:
    assert page.status_code == 200, text_of(page)
    assert "Nothing has been changed yet." in page.text
    return visitor.form(page, action)


def audited(file: Path, action: str) -> dict[str, Any]:
    entries = [json.loads(line) for line in file.read_text().splitlines()]
    return next(each for each in reversed(entries) if each["action"] == action)


def test_a_topic_is_created_after_its_plan(
    visitor: Visitor, admin: AdminClient, names: Callable[[], str], audit_file: Path
) -> None:
    name = names()
    given = {"name": name, "partitions": "3", "configs": "retention.ms = 60000\ncleanup.policy=compact"}
    page = visitor.submit("new-topic", "/new-topic", **given)
    plan = plan_of(visitor, page, "/new-topic")
    assert "retention.ms" in page.text
    assert name not in admin.list_topics(timeout=20).topics
    done = visitor.send(plan)
    assert f"Topic &#39;{name}&#39; was created." in done.text
    assert len(admin.list_topics(timeout=20).topics[name].partitions) == 3
    assert settings_of(admin, name)["retention.ms"] == "60000"
    entry = audited(audit_file, "create topic")
    assert (entry["user"], entry["target"], entry["outcome"]) == ("anonymous", name, "done")
    assert entry["address"].startswith("127.0.0.1:")
    assert name in visitor.get("changes").text


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": "a b"}, "ASCII alphanumerics"),
        ({"name": "x", "partitions": "many"}, "Partitions must be a whole number."),
        ({"name": "x", "configs": "retention.ms = soon"}, "retention.ms"),
        ({"name": "x", "configs": "what"}, "is not 'name = value'"),
        ({"name": "x", "replication": "7"}, "eplication factor"),
    ],
)
def test_a_topic_that_cannot_be_is_refused_before_the_plan(
    visitor: Visitor, fields: dict[str, str], sentence: str
) -> None:
    page = visitor.submit("new-topic", "/new-topic", **fields)
    assert page.status_code == 400
    assert sentence in text_of(page).replace("&#39;", "'")
    assert visitor.form(page, "/new-topic").fields["name"] == fields["name"]


def test_partitions_are_added(visitor: Visitor, admin: AdminClient, topic: str) -> None:
    page = visitor.submit(f"topics/{topic}/partitions", "/add-partitions", partitions="5")
    assert "Keys will be in other partitions" in page.text
    visitor.send(plan_of(visitor, page, "/add-partitions"))
    assert len(admin.list_topics(timeout=20).topics[topic].partitions) == 5
    refused = visitor.submit(f"topics/{topic}/partitions", "/add-partitions", partitions="1")
    assert refused.status_code == 400


def test_a_setting_is_changed_and_reset(visitor: Visitor, admin: AdminClient, topic: str) -> None:
    where = f"topics/{topic}/settings"
    page = visitor.submit(where, "/settings", name="retention.ms", value="1234567")
    visitor.send(plan_of(visitor, page, "/settings"))
    assert settings_of(admin, topic)["retention.ms"] == "1234567"
    page = visitor.submit(where, "/settings", name="retention.ms", reset="1")
    assert "168" in page.text or "as the brokers&#39; settings say" in page.text  # the future value
    visitor.send(plan_of(visitor, page, "/settings"))
    assert settings_of(admin, topic)["retention.ms"] == "604800000"
    assert visitor.submit(where, "/settings", name="retention.ms", value="soon").status_code == 400


def test_messages_and_topics_are_deleted_only_if_the_name_is_typed(
    broker: Broker, visitor: Visitor, admin: AdminClient, topic: str
) -> None:
    write(broker, topic, [b"x"] * 7, partition=1)
    where = f"topics/{topic}/partitions"
    plan = plan_of(visitor, visitor.submit(where, "/delete-records"), "/delete-records")
    assert visitor.send(plan, typed="something else").status_code == 400
    assert visitor.json(where)["messages"] == 7
    visitor.send(plan, typed=topic)
    assert visitor.json(where)["messages"] == 0
    page = visitor.submit(where, "/delete")
    assert "cannot be brought back" in page.text
    plan = plan_of(visitor, page, "/delete")
    assert visitor.send(plan).status_code == 400
    assert topic in admin.list_topics(timeout=20).topics
    assert "was deleted" in visitor.send(plan, typed=topic).text
    assert topic not in admin.list_topics(timeout=20).topics


# -- groups --


@pytest.fixture
def group(broker: Broker, topic: str, names: Callable[[], str]) -> str:
    name = names()
    for number in range(10):
        broker.produce(topic, b"x", partition=0, timestamp=1_700_000_000_000 + number * 60_000)
    commit(broker, name, topic, 4)
    return name


def commit(broker: Broker, group: str, topic: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, offset)], asynchronous=False)
    consumer.close()


def committed(broker: Broker, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    try:
        return consumer.committed([TopicPartition(topic, 0)], timeout=20)[0].offset
    finally:
        consumer.close()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "earliest"}, 0),
        ({"kind": "latest"}, 10),
        ({"kind": "offset", "value": "99"}, 10),
        ({"kind": "shift", "value": "-3"}, 1),
        ({"kind": "timestamp", "time": "2023-11-14T22:20"}, 7),
    ],
)
def test_offsets_are_moved_after_a_preview(
    broker: Broker, visitor: Visitor, topic: str, group: str, fields: dict[str, str], expected: int
) -> None:
    page = visitor.submit(f"groups/{group}/reset", "/reset", topic="", **fields)
    assert page.status_code == 200, text_of(page)
    assert committed(broker, group, topic) == 4
    form = visitor.form(page, "/offsets")
    assert form.fields["offset"] == str(expected)
    done = visitor.send(form)
    assert "The offsets of 1 partition were moved." in done.text
    assert committed(broker, group, topic) == expected


def test_each_partition_can_still_be_changed_in_the_preview(
    broker: Broker, visitor: Visitor, topic: str, group: str
) -> None:
    page = visitor.submit(f"groups/{group}/reset", "/reset", kind="earliest", topic=topic + "")
    assert page.text.count('name="offset"') == 2  # all partitions of the named topic
    form = visitor.form(page, "/offsets")
    visitor.send(form, topic=topic, partition="0", offset="6")
    assert committed(broker, group, topic) == 6
    assert visitor.send(form, offset="six").status_code == 400


def test_a_group_with_members_keeps_its_offsets(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    name = names()
    consumer = Consumer(
        {"bootstrap.servers": broker.bootstrap_servers, "group.id": name, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe([topic])
    broker.produce(topic, b"x")
    while consumer.poll(0.1) is None:
        pass
    page = visitor.submit(f"groups/{name}/reset", "/reset", kind="earliest", topic="")
    assert page.status_code == 400
    assert "has active members" in page.text
    consumer.close()


def test_a_group_is_deleted(broker: Broker, visitor: Visitor, admin: AdminClient, group: str) -> None:
    plan = plan_of(visitor, visitor.submit(f"groups/{group}/lag", "/delete"), "/delete")
    visitor.send(plan, typed=group)
    assert group not in [each.group_id for each in admin.list_consumer_groups().result(20).valid]


# -- transactions --


@pytest.fixture
def transaction(broker: Broker, topic: str, names: Callable[[], str]) -> Iterator[str]:
    name = names()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": name})
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"x", partition=0)
    producer.flush(20)
    yield name
    del producer


def test_an_open_transaction_is_shown_and_ended(
    broker: Broker, visitor: Visitor, topic: str, transaction: str
) -> None:
    [row] = visitor.json("transactions", q=transaction)["transactions"]
    assert (row["state"], row["partitions"]) == ("Ongoing", [[topic, 0]])
    page = visitor.get("transactions", q=transaction, hanging="1", minutes="0")
    assert (
        visitor.json("transactions", hanging="1", minutes="0")["hanging"] == []
    )  # its coordinator knows about it
    plan = plan_of(visitor, visitor.send(visitor.form(page, "/end")), "/end")
    visitor.send(plan)
    deadline = time.monotonic() + 20
    state = ""
    while state not in ("CompleteAbort", "Empty") and time.monotonic() < deadline:
        state = visitor.json("transactions", q=transaction)["transactions"][0]["state"]
    assert state in ("CompleteAbort", "Empty")


def test_a_transaction_that_hangs_is_found_and_aborted() -> None:
    """The coordinator never learned about the partition, as with older brokers and producers."""
    with Broker(config={"transaction.partition.verification.enable": "false"}) as trusting:
        trusting.create_topic("hangs")
        with WireClient(trusting.bootstrap_servers) as client:
            stray = WireProducer(client, "stray")
            assert stray.init() is ErrorCode.NONE
            assert stray.produce("hangs", b"value") is ErrorCode.NONE
        cluster = ClusterSettings("local", {"bootstrap.servers": trusting.bootstrap_servers})
        settings = ConsoleSettings((cluster,), port=0)
        with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
            assert visitor.json("transactions", hanging="1")["hanging"] == []  # not old enough yet
            [row] = visitor.json("transactions", hanging="1", minutes="0")["hanging"]
            assert (row["topic"], row["partition"], row["start_offset"]) == ("hangs", 0, 0)
            page = visitor.get("transactions", hanging="1", minutes="0")
            plan = plan_of(visitor, visitor.send(visitor.form(page, "/abort")), "/abort")
            assert "was aborted" in visitor.send(plan).text
            assert visitor.json("transactions", hanging="1", minutes="0")["hanging"] == []
        trusting.produce("hangs", b"after it")
        reader = {
            "group.id": "committed",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
        consumer = Consumer({"bootstrap.servers": trusting.bootstrap_servers, **reader})
        consumer.subscribe(["hangs"])
        message = consumer.poll(20)
        consumer.close()
        assert message is not None
        assert message.value() == b"after it"


# -- placement --


def test_the_heat_map_counts_replicas_on_brokers(broker: Broker, visitor: Visitor, topic: str) -> None:
    deadline = time.monotonic() + 10
    while not (rows := visitor.json("heatmap", q=topic)["rows"]) and time.monotonic() < deadline:
        time.sleep(0.05)
    [row] = rows
    assert [cell["count"] for cell in row["cells"]] == [2]
    assert 'class="h2"' in visitor.get("heatmap", q=topic).text


def test_a_move_to_where_replicas_are_is_none(visitor: Visitor, topic: str) -> None:
    node = visitor.json("overview")["brokers"][0]["id"]
    page = visitor.submit(f"reassignments?topic={topic}", "/start")
    assert "Nothing is to be moved" in page.text
    page = visitor.submit(f"reassignments?topic={topic}", "/start", **{"replicas-0": f"{node}, {node}"})
    assert page.status_code == 400
    page = visitor.submit(f"reassignments?topic={topic}", "/start", **{"replicas-0": "77"})
    assert "must name existing brokers" in page.text


# -- read-only --


def test_a_read_only_console_changes_nothing(
    broker: Broker, open_console: Callable[..., InBackground], topic: str
) -> None:
    running = open_console(read_only=True)
    with Visitor(running.url) as visitor:
        page = visitor.get(f"topics/{topic}/partitions")
        assert "read-only" in page.text
        assert "Delete topic" not in page.text
        answer = visitor.http.post(
            f"/clusters/local/topics/{topic}/delete", data={"confirmed": "1", "typed": topic}
        )
        assert answer.status_code == 403
