"""The heat map compares brokers topic by topic, and shows offline partitions."""

from __future__ import annotations

from ottla.client.cluster import Node
from ottla.console.cluster.source import PartitionState, TopicState, Topology
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from tests.console.browsing import Visitor, text_of
from tests.console.simulated import SimulatedCluster, simulated_site


def cluster() -> SimulatedCluster:
    """Broker 2 is down, and with it both replicas of `lost`; all leaders of `skewed` are on broker 0."""
    found = SimulatedCluster(1, 1, 0)
    nodes = {number: Node(number, f"kafka{number}", 9092, None) for number in (0, 1)}
    topics = {
        "even": TopicState("even", False, tuple(PartitionState(n, n, (n,), (n,)) for n in (0, 1))),
        "skewed": TopicState("skewed", False, tuple(PartitionState(n, 0, (0,), (0,)) for n in range(4))),
        "lost": TopicState("lost", False, (PartitionState(0, None, (2,), (2,)),)),
    }
    found._topology = Topology("simulated", 0, nodes, topics)
    return found


def test_the_map_compares_each_topic_with_an_even_share() -> None:
    settings = ConsoleSettings((ClusterSettings("local", {"bootstrap.servers": "nowhere:1"}),), port=0)
    site = simulated_site(cluster(), refresh_seconds=3600, lag_seconds=3600)
    with (
        InBackground(lambda: Console(settings, {"local": site}), "console") as running,
        Visitor(running.url) as visitor,
    ):
        data = visitor.json("heatmap", what="leaders")
        rows = {row["topic"]: row for row in data["rows"]}
        assert data["brokers"] == [0, 1, 2]
        assert [cell["heat"] for cell in rows["even"]["cells"]] == [2, 2, 0]
        assert [cell["heat"] for cell in rows["skewed"]["cells"]] == [6, 0, 0]
        assert rows["skewed"]["skew"] == 4
        assert [cell["offline"] for cell in rows["lost"]["cells"]] == [0, 0, 1]
        assert visitor.json("heatmap", sort="offline", desc="1")["rows"][0]["topic"] == "lost"
        sizes = {row["topic"]: row for row in visitor.json("heatmap", what="bytes")["rows"]}
        assert [cell["count"] for cell in sizes["skewed"]["cells"]] == [4 << 20, 0, 0]
        page = visitor.get("heatmap")
        assert 'class="offline"' in page.text
        assert "1 offline" in text_of(page)
        assert "4.0 MiB" in text_of(visitor.get("heatmap", what="bytes"))
        assert visitor.get("heatmap", what="rate").status_code == 200
        assert "2 of 3" in text_of(visitor.get("overview"))
