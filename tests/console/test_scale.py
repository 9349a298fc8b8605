"""On a large cluster the cost depends on the visible part: counted in requests, simulated and real."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from bench.console import make_topics, requests_of
from ottla.console.cluster.lag_history import AT_ONCE as GROUPS_AT_ONCE
from ottla.console.cluster.rates import AT_ONCE, Rates
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor
from tests.console.simulated import SimulatedCluster, simulated_site

TOPICS, PARTITIONS, GROUPS = 10_000, 39_000, 2_000


@pytest.fixture(scope="module")
def cluster() -> SimulatedCluster:
    return SimulatedCluster(TOPICS, PARTITIONS, GROUPS)


@pytest.fixture(scope="module")
def visitor(cluster: SimulatedCluster) -> Iterator[Visitor]:
    # A separate test below covers the background measurements.
    settings = ConsoleSettings((ClusterSettings("local", {"bootstrap.servers": "nowhere:1"}),), port=0)

    def make() -> Console:
        site = simulated_site(cluster, refresh_seconds=3600, lag_seconds=3600)
        site.start = lambda: None  # type: ignore[method-assign]
        return Console(settings, {"local": site})

    with InBackground(make, "console") as running, Visitor(running.url) as visiting:
        yield visiting


def test_the_overview_adds_up_all_partitions_from_one_request(
    visitor: Visitor, cluster: SimulatedCluster
) -> None:
    data = visitor.json("overview")
    assert (data["topics"], data["partitions"], data["groups"]) == (TOPICS, PARTITIONS, GROUPS)
    assert data["under_replicated"] > 0
    assert data["health"] == "warning"
    assert cluster.asked["topology"] == cluster.asked["groups"] == cluster.asked["volumes"] == 1
    assert cluster.partitions_asked == 0


def test_a_page_of_topics_asks_about_its_own_rows_only(visitor: Visitor, cluster: SimulatedCluster) -> None:
    visitor.get("overview")
    before = cluster.partitions_asked
    for query in (
        {},
        {"q": "team-07"},
        {"sort": "partitions", "desc": "1"},
        {"page": "150"},
        {"q": "events-09999"},
    ):
        page = visitor.get("topics", **query)
        assert page.status_code == 200
    shown = cluster.partitions_asked - before
    assert shown <= 5 * 50 * 7 + 500
    assert cluster.asked["topology"] == 1
    assert visitor.json("topics", q="team-07")["total"] == TOPICS // 40
    assert visitor.json("topics", page="200")["topics"][-1]["name"].endswith("09999")


def test_a_page_of_groups_asks_about_its_own_rows_only(visitor: Visitor, cluster: SimulatedCluster) -> None:
    before = cluster.groups_asked
    data = visitor.json("groups", page="3")
    assert (data["total"], data["pages"]) == (GROUPS, 40)
    assert cluster.groups_asked - before == 50
    assert visitor.json("groups", q="group-1999")["groups"][0]["lag"] == 100


def test_the_heat_map_asks_nothing_at_all(visitor: Visitor, cluster: SimulatedCluster) -> None:
    visitor.get("overview")
    before = sum(cluster.asked.values())
    assert visitor.json("heatmap", sort="skew", desc="1")["total"] == TOPICS
    assert sum(cluster.asked.values()) == before


def test_pages_are_small_however_large_the_cluster_is(visitor: Visitor) -> None:
    for page in ("overview", "topics", "groups", "heatmap"):
        assert len(visitor.get(page).content) < 200_000


def test_what_is_measured_in_the_background_is_bounded(cluster: SimulatedCluster) -> None:
    async def measure() -> tuple[int, int]:
        site = simulated_site(cluster, refresh_seconds=3600)
        await site.snapshots.current()
        before = cluster.partitions_asked, cluster.groups_asked
        await site.measure_rates()
        await site.measure_lag()
        await site.stop()
        return cluster.partitions_asked - before[0], cluster.groups_asked - before[1]

    partitions, groups = asyncio.run(measure())
    assert partitions == AT_ONCE
    assert groups == GROUPS_AT_ONCE


@pytest.mark.slow
def test_a_look_at_two_thousand_real_topics_is_a_handful_of_requests() -> None:
    """The broker counts the requests. The page has fifty topics, and queries no others."""
    with Broker(config={"metrics.port": "0"}) as broker:
        make_topics(broker.bootstrap_servers, 2000)
        port = int(broker.metrics_url.rpartition(":")[2].partition("/")[0])
        cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})
        settings = ConsoleSettings((cluster,), port=0, refresh_seconds=3600, lag_seconds=3600)
        with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
            assert visitor.json("topics")["total"] == 2000
            for page, query in (
                ("topics", {}),
                ("topics", {"q": "real-01"}),
                ("overview", {}),
                ("groups", {}),
            ):
                before = requests_of(port)
                visitor.get(page, **query)
                asked = {name: count - before.get(name, 0) for name, count in requests_of(port).items()}
                assert sum(asked.values()) <= 5, (page, asked)
                assert asked.get("ListOffsets", 0) <= 2  # one for start offsets, one for end offsets
            shown = visitor.json("topics", q="real-01")
            assert (shown["total"], len(shown["topics"])) == (100, 50)


def test_all_partitions_are_measured_in_turn() -> None:
    partitions = [(f"t{number}", 0) for number in range(AT_ONCE * 2 + 10)]
    rates = Rates()
    ends = dict.fromkeys(partitions, 0)
    asked = set()
    for turn in range(1, 7):
        chosen = rates.next_round(partitions)
        assert len(chosen) == AT_ONCE
        asked |= set(chosen)
        ends = dict.fromkeys(ends, 10 * turn)
        rates.add(float(turn), {key: ends[key] for key in chosen}, partitions)
    assert asked == set(partitions)
    # Each partition gets ten messages a second.
    assert rates.total == pytest.approx(10 * len(partitions), rel=0.01)
    rates.add(7.0, {}, [])
    assert rates.total == 0
