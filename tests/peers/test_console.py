"""Promise: the console shows and changes Apache Kafka like Ottla."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from tests.console.browsing import Visitor, text_of

pytestmark = [pytest.mark.peers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def kafka() -> Iterator[ApacheKafka]:
    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    with ApacheKafka() as running:
        yield running


@pytest.fixture(scope="module")
def visitor(kafka: ApacheKafka) -> Iterator[Visitor]:
    cluster = ClusterSettings("local", {"bootstrap.servers": kafka.bootstrap_servers})
    settings = ConsoleSettings((cluster,), port=0, refresh_seconds=0.2, lag_seconds=0.5)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visiting:
        yield visiting


def test_pages_show_and_forms_change_apache_kafka(kafka: ApacheKafka, visitor: Visitor) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    overview = visitor.json("overview")
    assert overview["health"] == "ok", overview
    assert overview["brokers"][0]["disk_total"] > 0

    given = {"name": "orders", "partitions": "2", "replication": "1", "configs": "retention.ms=60000"}
    page = visitor.submit("new-topic", "/new-topic", **given)
    assert "Nothing has been changed yet." in page.text, text_of(page)
    visitor.send(visitor.form(page, "/new-topic"))
    assert len(admin.list_topics(timeout=30).topics["orders"].partitions) == 2
    rows = {row["name"]: row for row in visitor.json("topics/orders/settings")["settings"]}
    assert (rows["retention.ms"]["value"], rows["retention.ms"]["where"]) == ("60000", "this topic")
    assert rows["retention.ms"]["documentation"]

    fields = {"key": "k", "value": '{"n": 1}', "partition": "1", "headers": "a: b"}
    assert "Sent to partition 1" in visitor.submit("topics/orders/produce", "/produce", **fields).text
    for kind in ("gzip", "snappy", "lz4", "zstd"):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "compression.type": kind})
        for number in range(50):
            producer.produce("orders", f'{{"codec": "{kind}", "n": {number}}}', partition=0)
        assert producer.flush(30) == 0
    found = visitor.json("topics/orders/messages", limit=200)["messages"]
    assert len(found) == 200
    assert {each["value"].get("codec") for each in found} >= {"gzip", "snappy", "lz4", "zstd"}
    condition = "codec IN ('zstd', 'lz4') AND n >= 48"
    exported = visitor.get(
        "topics/orders/messages/export", format="json", q=condition, mode="sql", **{"from": "oldest"}
    )
    assert len(exported.text.splitlines()) == 4
    assert visitor.json("topics/orders/partitions")["messages"] == 201
    assert visitor.json("topics/orders/partitions")["min_insync_replicas"] == 1
    sizes = [row["size"] for row in visitor.json("topics/orders/partitions")["partitions"]]
    assert all(sizes)

    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    while consumer.poll(0.5) is None:
        pass
    consumer.commit(asynchronous=False)
    data = visitor.json("groups/readers/lag")
    assert (data["state"], len(data["members"])) == ("Stable", 1)
    consumer.close()
    deadline = time.monotonic() + 60
    while visitor.json("groups/readers/lag")["members"] and time.monotonic() < deadline:
        time.sleep(0.2)
    page = visitor.submit("groups/readers/reset", "/reset", kind="latest", topic="")
    visitor.send(visitor.form(page, "/offsets"))
    assert visitor.json("groups/readers/lag")["lag"] == 0

    # A broker without an authorizer reports that, and so does the page.
    assert visitor.get("acls").status_code == 200
    for page_name in ("quotas", "users", "tokens", "transactions", "heatmap", "reassignments", "flow"):
        assert visitor.get(page_name).status_code == 200, page_name

    plan = visitor.submit("topics/orders/partitions", "/delete")
    visitor.send(visitor.form(plan, "/delete"), typed="orders")
    assert "orders" not in admin.list_topics(timeout=30).topics
