"""Mirrors and pipelines in the graph, found by their traces in the clusters and on this machine."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.cluster import TopicPartition
from ottla.console.flows import merged, neighbourhood
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.console.web.charts import Edge, Node, draw
from ottla.http.background import InBackground
from ottla.mirror.formats import OffsetSync, position_key, position_value
from ottla.protocol.internal_topics import MIRROR_LINK
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.spark.pipelines.state import Phase, Pipelines, PipelineState, process_started
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of, write

Edges = dict[tuple[str, str], dict[str, Any]]


@pytest.fixture(scope="module")
def there() -> Iterator[Broker]:
    with Broker() as running:
        yield running


@pytest.fixture(scope="module")
def visitor(broker: Broker, there: Broker) -> Iterator[Visitor]:
    clusters = tuple(
        ClusterSettings(name, {"bootstrap.servers": each.bootstrap_servers})
        for name, each in (("local", broker), ("there", there))
    )
    settings = ConsoleSettings(clusters, port=0, lag_seconds=0.5, refresh_seconds=0.3)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visiting:
        yield visiting


def edges(visitor: Visitor, cluster: str = "local") -> Edges:
    found = visitor.http.get(f"/clusters/{cluster}/flow.json").json()
    assert found["problems"] == []
    return {(each["source"], each["target"]): each for each in found["edges"]}


def wait_for_edge(visitor: Visitor, source: str, target: str, cluster: str = "local") -> Edges:
    """Wait for an edge. The console's snapshot may be slightly old."""
    deadline = time.monotonic() + 20
    while (source, target) not in (found := edges(visitor, cluster)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert (source, target) in found
    return found


def test_a_mirror_is_in_the_graph_of_both_clusters(broker: Broker, there: Broker, visitor: Visitor) -> None:
    """From `there` to `local`, with MirrorMaker's offset records."""
    there.create_topic("orders", 2)
    write(there, "orders", [b"x"] * 10, partition=0)
    write(there, "orders", [b"x"] * 7, partition=1)
    broker.create_topic("there.orders", 2)
    broker.create_topic("orders")  # a local topic, not a copy
    broker.create_topic("mm2-offsets.there.internal", config={"cleanup.policy": "compact"})
    for partition, last in ((0, 3), (0, 7), (1, 6)):
        key = position_key("there", TopicPartition("orders", partition))
        broker.produce("mm2-offsets.there.internal", position_value(last, "id"), key=key)
    broker.produce("mm2-offsets.there.internal", b"something else", key=b"not a position")
    there.create_topic("mm2-offset-syncs.local.internal", config={"cleanup.policy": "compact"})
    sync = OffsetSync("orders", 0, 7, 7)
    there.produce("mm2-offset-syncs.local.internal", sync.value(), key=sync.key())
    there.produce("mm2-offset-syncs.local.internal", b"?", key=b"\xff")
    found = wait_for_edge(visitor, "cluster:there", "mirror:there → local")
    assert found["cluster:there", "mirror:there → local"]["lag"] == 2
    assert ("mirror:there → local", "topic:there.orders") in found
    assert ("mirror:there → local", "topic:orders") not in found
    on_the_source = wait_for_edge(visitor, "topic:orders", "mirror:there → local", "there")
    assert ("mirror:there → local", "cluster:local") in on_the_source
    page = visitor.get("flow")
    assert "there → local" in text_of(page)
    assert 'href="/clusters/there/flow"' in page.text


def test_topics_of_a_link_hang_on_it(broker: Broker, visitor: Visitor) -> None:
    broker.create_topic("linked", config={MIRROR_LINK: "from-afar"})
    wait_for_edge(visitor, "mirror:from-afar", "topic:linked")


def test_pipelines_show_what_they_read_and_write(
    broker: Broker, visitor: Visitor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTTLA_STATE_DIR", str(tmp_path))
    for topic in ("clicks", "totals"):
        broker.create_topic(topic)
    pipelines = Pipelines()
    running = QueryProgress(
        "sums", True, 3, 120, 60.0, 2.5, batch_seconds=0.4, lag=17, reads=("clicks",), writes=("totals",)
    )
    with pipelines.claim("web"):
        own = os.getpid()
        pipelines.write(
            PipelineState(
                "web", own, process_started(own) or 0, "web.py", "local[2]", broker.bootstrap_servers,
                "checkpoints", "web.log", 0.0, Phase.RUNNING, queries=[running],
            )
        )  # fmt: skip
        found = edges(visitor)
    assert found["topic:clicks", "pipeline:web/sums"]["label"] == "60 rows/s · lag 17 · 0.4 s a batch"
    assert found["pipeline:web/sums", "topic:totals"]["rate"] == 2.5
    assert "60 rows/s" in text_of(visitor.get("flow"))


def test_labels_of_many_edges_do_not_overlap() -> None:
    nodes = [Node("t", "orders", "topic"), *(Node(f"g{n}", f"g{n}", "group") for n in range(9))]
    drawing = draw(nodes, [Edge("t", f"g{n}", "12,345 rows/s · lag 59,000", 10.0 * n) for n in range(9)])
    places = [(int(x), int(y)) for x, y in re.findall(r'<tspan x="(\d+)" y="(\d+)">', drawing)]
    assert len(places) == 18
    for index, (x, y) in enumerate(places):
        assert not [1 for other in places[:index] if abs(other[0] - x) < 60 and abs(other[1] - y) < 11]


def test_edges_are_wider_the_more_flows_and_red_beside_a_failure() -> None:
    nodes = [Node("a", "a", "topic"), Node("b", "b", "connector", is_bad=True), Node("c", "c", "group")]
    drawing = draw(nodes, [Edge("a", "b", rate=1.0), Edge("a", "c", rate=100.0)])
    assert '<path class="w1 bad"' in drawing
    assert '<path class="w4"' in drawing


def test_many_groups_of_a_topic_are_one_node_and_the_rest_is_left_out_on_request() -> None:
    groups = [Node(f"group:{n}", f"{n}", "group", "", "", n == 3) for n in range(6)]
    nodes = [
        Node("topic:a", "a", "topic"),
        Node("topic:b", "b", "topic"),
        Node("connector:x", "x", "connector"),
    ]
    edges = [Edge("topic:a", each.id, "lag", lag=number) for number, each in enumerate(groups)]
    edges += [Edge("topic:a", "connector:x"), Edge("connector:x", "topic:b")]
    fewer, joined = merged([*nodes, *groups], edges)
    assert [each.id for each in fewer] == ["topic:a", "topic:b", "connector:x", "groups:topic:a"]
    assert fewer[-1].is_bad
    assert [(each.source, each.target, each.lag) for each in joined if each.lag is not None] == [
        ("topic:a", "groups:topic:a", 5)
    ]
    near, between = neighbourhood(fewer, joined, {"topic:b"}, 1)
    assert [each.id for each in near] == ["topic:b", "connector:x"]
    assert len(between) == 1
    assert len(neighbourhood(fewer, joined, {"topic:b"}, 9)[0]) == 3  # up the stream, not down to the groups
