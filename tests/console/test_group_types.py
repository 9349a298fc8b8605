"""KIP-848 groups and share groups in the console. Other modules test classic groups."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from confluent_kafka import Consumer

from ottla.client.admin.configs import Resource, alter_configs
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.testing import Broker
from tests.console.browsing import Visitor, write


@pytest.fixture
def topic(broker: Broker, names: Callable[[], str]) -> str:
    name = names()
    broker.create_topic(name)
    write(broker, name, [b"x"] * 10)
    return name


def wait(condition: Callable[[], object], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.05)


def test_a_group_of_the_new_protocol_is_shown(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    group = names()
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "group.protocol": "consumer",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        message = None
        while message is None:
            message = consumer.poll(0.2)
        consumer.commit(message=message, asynchronous=False)
        data = visitor.json(f"groups/{group}/lag")
        assert (data["type"], data["state"], data["lag"]) == ("Consumer", "Stable", 9)
        assert data["assignor"] == "uniform"
        assert [row["group"] for row in visitor.json("groups", type="consumer", q=group)["groups"]] == [group]
        assert visitor.json("groups", type="share", q=group)["groups"] == []
    finally:
        consumer.close()


def test_a_share_group_is_shown_and_moved(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    confluent = pytest.importorskip("confluent_kafka")
    if not hasattr(confluent, "ShareConsumer"):
        pytest.skip("this confluent-kafka has no share consumer")
    group = names()
    cluster = Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
    alter_configs(cluster, Resource("group", group), set_={"share.auto.offset.reset": "earliest"})
    cluster.close()
    consumer = confluent.ShareConsumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.subscribe([topic])
    read = 0
    while read < 10:
        read += len(consumer.poll(timeout=1.0) or [])
    wait(lambda: visitor.json(f"groups/{group}/lag")["members"])
    data = visitor.json(f"groups/{group}/lag")
    assert data["type"] == "Share"
    assert data["members"][0]["partitions"] == [[topic, 0]]
    consumer.commit_sync(20)
    consumer.close()
    wait(lambda: visitor.json(f"groups/{group}/lag")["lag"] == 0)
    assert visitor.json("groups", type="share", q=group)["groups"][0]["lag"] == 0
    wait(lambda: not visitor.json(f"groups/{group}/lag")["members"])
    page = visitor.submit(f"groups/{group}/reset", "/reset", kind="offset", value="4", topic="")
    visitor.send(visitor.form(page, "/offsets"))
    [row] = visitor.json(f"groups/{group}/lag")["partitions"]
    assert (row["offset"], row["lag"]) == (4, 6)
    plan = visitor.submit(f"groups/{group}/lag", "/delete")
    visitor.send(visitor.form(plan, "/delete"), typed=group)
    assert visitor.get(f"groups/{group}/lag").status_code == 404
