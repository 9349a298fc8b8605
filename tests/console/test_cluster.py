"""The console with three brokers: moving partitions, a stopped broker, and two clusters in one console."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster as Client
from ottla.client.settings import Settings
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.testing import Broker, Cluster
from tests.console.browsing import Visitor, text_of, write

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(3, config={"auto.leader.rebalance.enable": "false"}) as running:
        yield running


@pytest.fixture(scope="module")
def visitor(cluster: Cluster, broker: Broker) -> Iterator[Visitor]:
    clusters = (
        ClusterSettings("local", {"bootstrap.servers": cluster.bootstrap_servers}),
        ClusterSettings("single", {"bootstrap.servers": broker.bootstrap_servers}, read_only=True),
    )
    settings = ConsoleSettings(clusters, port=0, refresh_seconds=0.2)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visiting:
        yield visiting


def wait(condition: Callable[[], object], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.1)


def test_partitions_are_moved_with_a_plan_and_leaders_elected(cluster: Cluster, visitor: Visitor) -> None:
    cluster.create_topic("moving", 2, replication_factor=2)
    write(cluster, "moving", [b"x" * 1000] * 200, partition=0)  # type: ignore[arg-type]
    before = cluster.partition("moving", 0)
    assert before is not None
    third = ({0, 1, 2} - set(before.replicas)).pop()
    wanted = [third, before.replicas[0]]
    where = "reassignments?topic=moving"
    page = visitor.submit(where, "/start", **{"replicas-0": f"{wanted[0]}, {wanted[1]}"})
    assert "Nothing has been changed yet." in page.text
    assert cluster.partition("moving", 0).replicas == before.replicas  # type: ignore[union-attr]
    visitor.send(visitor.form(page, "/start"))
    wait(lambda: (found := cluster.partition("moving", 0)) is not None and list(found.replicas) == wanted)
    wait(lambda: not visitor.json("reassignments")["reassignments"])

    def replicas() -> int:
        [row] = visitor.json("heatmap", q="moving")["rows"]
        return sum(cell["count"] for cell in row["cells"])

    wait(lambda: replicas() == 4)  # a broker may report the move slightly longer than the controller
    wait(lambda: visitor.json("reassignments")["not_preferred"] >= 1)
    done = visitor.submit("reassignments", "/elections")
    assert "New leaders were elected" in done.text
    wait(lambda: cluster.leader("moving", 0) == third)


def test_the_cluster_is_rebalanced_as_planned(cluster: Cluster, visitor: Visitor) -> None:
    client = Client(Settings.from_properties({"bootstrap.servers": cluster.bootstrap_servers}))
    create_topic(client, "skewed", assignment=[[0]] * 9)
    client.close()
    wait(lambda: visitor.json("heatmap", q="skewed")["rows"])
    page = visitor.submit("reassignments", "/rebalance")
    assert "Nothing has been changed yet." in page.text
    assert "skewed-" in page.text
    form = visitor.form(page, "/rebalance")
    tampered = visitor.send(form, plan=form.fields["plan"][:-1] + "x")
    assert tampered.status_code == 400
    assert "are being moved" in visitor.send(form).text

    def spread() -> bool:
        [row] = visitor.json("heatmap", q="skewed")["rows"]
        return max(cell["count"] for cell in row["cells"]) < 9

    wait(spread)
    wait(lambda: not visitor.json("reassignments")["reassignments"])


def test_a_broker_that_is_down_is_a_reason(cluster: Cluster, visitor: Visitor) -> None:
    cluster.create_topic("watched", 3)
    assert visitor.json("overview")["health"] == "ok"
    cluster.kill(2)
    wait(lambda: visitor.json("overview")["health"] == "error")
    data = visitor.json("overview")
    assert "Broker 2 is down, but replicas are assigned to it." in [each["text"] for each in data["reasons"]]
    wait(lambda: visitor.json("overview")["under_replicated"] >= 3)
    [dead] = [each for each in data["brokers"] if each["is_down"]]
    assert dead["id"] == 2
    page = visitor.get("brokers/2/settings")
    assert page.status_code == 200
    assert "This broker is down" in text_of(page)
    assert 2 in visitor.json("heatmap")["brokers"]
    page = visitor.get("overview")
    assert "Something is wrong." in text_of(page)
    assert "watched-" in page.text
    cluster.restart(2)
    wait(lambda: visitor.json("overview")["health"] == "ok")


def test_partitions_below_min_isr_are_named_with_the_reason(cluster: Cluster, visitor: Visitor) -> None:
    cluster.create_topic("strict", 1, config={"min.insync.replicas": "3"})
    cluster.create_topic("lenient", 1, config={"min.insync.replicas": "1"})
    lost = next(each for each in (1, 2) if each != cluster.leader("strict", 0))
    cluster.kill(lost)
    sentence = (
        "Below min.insync.replicas, hence not written with acks=all: 1 partition: "
        f"strict-0 (2 in sync, 3 needed; broker {lost} is down)."
    )
    wait(lambda: sentence in [each["text"] for each in visitor.json("overview")["reasons"]])
    data = visitor.json("overview")
    assert data["below_min_isr_partitions"] == [["strict", 0]]
    [partition] = visitor.json("topics/strict/partitions")["partitions"]
    assert partition["is_below_min_isr"]
    [partition] = visitor.json("topics/lenient/partitions")["partitions"]
    assert not partition["is_below_min_isr"]
    cluster.restart(lost)
    wait(lambda: visitor.json("overview")["health"] == "ok")


def test_several_clusters_are_one_console(cluster: Cluster, broker: Broker, visitor: Visitor) -> None:
    page = visitor.get("/")
    assert "single" in page.text
    assert broker.bootstrap_servers in page.text
    listed = visitor.http.get("/clusters.json").json()["clusters"]
    assert {each["name"] for each in listed} == {"local", "single"}
    broker.create_topic("only-in-the-single-one")
    where = "/clusters/single/topics.json"
    wait(lambda: "only-in-the-single-one" in visitor.http.get(where).text)
    assert "only-in-the-single-one" not in visitor.http.get("/clusters/local/topics.json").text
    refused = visitor.http.post(
        "/clusters/single/new-topic", data={"csrf": visitor.token(), "name": "x", "confirmed": "1"}
    )
    assert refused.status_code == 403
    assert "read-only" in refused.text


def test_a_cluster_that_is_gone_is_not_called_well() -> None:
    with Broker() as broker:
        clusters = (ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers}),)
        settings = ConsoleSettings(clusters, port=0, refresh_seconds=0.2)
        with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visitor:
            assert visitor.json("overview")["health"] == "ok"
            broker.stop()
            wait(lambda: visitor.json("overview")["health"] == "error")
            assert "The cluster has not answered for" in text_of(visitor.get("overview"))
