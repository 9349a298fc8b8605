"""The console's overview, topics and groups, over HTTP without a browser."""

from __future__ import annotations

import time
from collections.abc import Callable

from confluent_kafka import Consumer

from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of, write


def _wait(condition: Callable[[], object], seconds: float = 20.0) -> object:
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found or time.monotonic() > deadline:
            return found
        time.sleep(0.05)


def test_the_overview_shows_brokers_and_says_that_all_is_well(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("seen-on-the-overview", 3)
    page = visitor.get("/")
    assert page.status_code == 200
    assert page.url.path == "/clusters/local/overview"
    assert _wait(lambda: "All is well." in visitor.get("/").text), text_of(visitor.get("/"))
    data = visitor.json("overview")
    [node] = data["brokers"]
    assert f"{node['host']}:{node['port']}" == broker.bootstrap_servers
    assert node["is_controller"]
    assert node["disk_total"] > node["disk_free"] > 0
    assert data["health"] == "ok"
    assert (data["offline"], data["under_replicated"]) == (0, 0)


def test_throughput_comes_from_how_far_the_ends_of_partitions_move(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    topic = names()
    broker.create_topic(topic)
    write(broker, topic, [b"x"] * 100)
    assert _wait(lambda: visitor.json("overview")["messages_per_second"] is not None)

    def rate_while_writing() -> float:
        # A pause of half a second has a rate of its own, so a slow page could miss the records of one write.
        write(broker, topic, [b"x"] * 50)
        return visitor.json("overview")["messages_per_second"] or 0

    assert _wait(lambda: rate_while_writing() > 0)


def test_topics_are_filtered_sorted_and_paged(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    stem = names()
    for number in range(30):
        broker.create_topic(f"{stem}-{number:02}", 2 if number == 7 else 1)
    write(broker, f"{stem}-07", [b"a", b"b", b"c"])
    assert _wait(lambda: visitor.json("topics", q=stem)["total"] == 30)
    listed = visitor.json("topics", q=stem, size=25)
    assert (listed["total"], listed["pages"], len(listed["topics"])) == (30, 2, 25)
    assert listed["topics"][7]["messages"] == 3
    assert listed["topics"][7]["size"] > 0
    rest = visitor.json("topics", q=stem, size=25, page=2)
    assert [row["name"][-2:] for row in rest["topics"]] == ["25", "26", "27", "28", "29"]
    most = visitor.json("topics", q=stem, sort="partitions", desc="1")
    assert most["topics"][0]["name"] == f"{stem}-07"
    page = visitor.get("topics", q=stem, size=25)
    assert "Page 1 of 2" in page.text
    assert 'rel="next"' in page.text


def test_internal_topics_are_shown_only_on_request(broker: Broker, visitor: Visitor) -> None:
    assert not any(row["internal"] for row in visitor.json("topics")["topics"])
    shown = visitor.json("topics", internal="1", q="_schemas")
    assert [row["name"] for row in shown["topics"]] == ["_schemas"]


def test_a_topic_shows_leaders_replicas_offsets_and_sizes(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    topic = names()
    broker.create_topic(topic, 2)
    write(broker, topic, [b"one", b"two"], partition=1)
    data = visitor.json(f"topics/{topic}/partitions")
    first, second = data["partitions"]
    assert (first["messages"], second["messages"]) == (0, 2)
    assert second["leader"] == second["replicas"][0] == second["isr"][0]
    assert second["size"] > 0
    assert data["messages"] == 2
    page = visitor.get(f"topics/{topic}/partitions")
    assert page.status_code == 200
    assert f"<h1>{topic}</h1>" in page.text


def test_settings_say_where_they_come_from_and_what_they_mean(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    topic = names()
    broker.create_topic(topic, config={"retention.ms": "60000"})
    rows = {row["name"]: row for row in visitor.json(f"topics/{topic}/settings")["settings"]}
    assert rows["retention.ms"]["value"] == "60000"
    assert rows["retention.ms"]["where"] == "this topic"
    assert rows["segment.bytes"]["where"] == "default"
    assert "retain" in rows["retention.ms"]["documentation"].lower() or rows["retention.ms"]["documentation"]
    page = visitor.get(f"topics/{topic}/settings")
    assert "this topic" in text_of(page)
    node = visitor.json("overview")["brokers"][0]["id"]
    broker_rows = visitor.json(f"brokers/{node}/settings")["settings"]
    assert any(row["where"] == "server.properties" for row in broker_rows)


def test_a_topic_that_is_not_there_is_a_plain_sentence(visitor: Visitor) -> None:
    page = visitor.get("topics/nowhere/partitions")
    assert page.status_code == 404
    assert "Topic &#39;nowhere&#39; does not exist." in page.text
    assert (
        visitor.get("topics/nowhere/partitions.json").json()["message"] == "Topic 'nowhere' does not exist."
    )


def test_a_group_shows_its_lag_in_messages_and_in_time(
    broker: Broker, visitor: Visitor, names: Callable[[], str]
) -> None:
    topic, group = names(), names()
    broker.create_topic(topic)
    write(broker, topic, [b"a", b"b", b"c", b"d"])
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "client.id": "a-reader",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        first = _wait(lambda: consumer.poll(0.1))
        consumer.commit(message=first, asynchronous=False)
        data = visitor.json(f"groups/{group}/lag")
        [row] = data["partitions"]
        assert (row["offset"], row["end_offset"], row["lag"]) == (1, 4, 3)
        assert row["client_id"] == "a-reader"
        assert 0 < row["time_lag"] < 60
        assert data["state"] == "Stable"
        assert data["members"][0]["partitions"] == [[topic, 0]]
        [listed] = visitor.json("groups", q=group)["groups"]
        assert (listed["lag"], listed["topics"]) == (3, 1)
        [reading] = visitor.json(f"topics/{topic}/groups")["groups"]
        assert (reading["group"], reading["lag"]) == (group, 3)
        # The history fills by itself and appears as a chart.
        assert _wait(lambda: "<polyline" in visitor.get(f"groups/{group}/lag").text)
    finally:
        consumer.close()
    assert visitor.json(f"groups/{group}/lag")["members"] == []


def test_capacity_is_measured_on_request(broker: Broker, visitor: Visitor, names: Callable[[], str]) -> None:
    broker.create_topic(names())
    assert visitor.json("capacity")["measured"] is None
    measured = visitor.json("capacity", measure="1", seconds="1")["measured"]
    assert not measured["survives"]  # the only broker
    assert measured["losses"][0]["offline"] > 0
    assert any("would be offline" in each for each in measured["advice"])
    assert visitor.get("capacity", measure="1", seconds="1").status_code == 200
