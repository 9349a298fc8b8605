"""Promise: connectors spread evenly over workers, move when workers come and go, and never run on two."""

from __future__ import annotations

import contextlib
import json
import ssl
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.client.admin.groups import list_groups
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.security.certificates import make_authority
from ottla.testing import Broker
from tests.connect.chaos.locks import violations
from tests.connect.worker.recording_engine import RecordingEngine
from tests.connect.worker.workers import Worker, distributed_properties, wait_for

CONFIG = {"connector.class": "FileStreamSource", "topic": "t"}


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(
        config={"group.min.session.timeout.ms": "500", "group.initial.rebalance.delay.ms": "0"}
    ) as broker:
        yield broker


def properties(broker: Broker, directory: Path, group: str, delay: str = "0") -> dict[str, str]:
    return {
        **distributed_properties(broker.bootstrap_servers, group),
        "spark.test.directory": str(directory),
        "scheduled.rebalance.max.delay.ms": delay,
        "session.timeout.ms": "3000",
        "heartbeat.interval.ms": "100",
    }


def spread(worker: Worker) -> Counter[str]:
    """Return the number of connectors per worker, as seen by one worker."""
    found = worker.call("GET", "/connectors?expand=status").body
    return Counter(
        each["status"]["connector"]["worker_id"]
        for each in found.values()
        if each["status"]["connector"]["state"] == "RUNNING"
    )


def create(worker: Worker, count: int) -> None:
    for number in range(count):
        answer = worker.call("POST", "/connectors", {"name": f"c{number}", "config": CONFIG})
        assert answer.status == 201, answer


def test_workers_share_connectors_and_take_over_from_each_other(broker: Broker, tmp_path: Path) -> None:
    given = properties(broker, tmp_path, "sharing")
    with contextlib.ExitStack() as stack:
        workers = [stack.enter_context(Worker(given, engine=RecordingEngine)) for _ in range(3)]
        for worker in workers:
            worker.wait_until_ready()
        # Not the leader, so that it forwards requests to the leader.
        create(workers[2], 7)
        wait_for(lambda: sorted(spread(workers[1]).values()) == [2, 2, 3], str(spread(workers[1])))
        with contextlib.closing(
            Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
        ) as cluster:
            [listed] = [each for each in list_groups(cluster) if each.group == "sharing"]
        assert listed.protocol == "connect"
        # Both workers report the same state, and both know each change.
        assert workers[0].call("PUT", "/connectors/c3/pause").status == 202
        workers[2].wait_until("c3", "PAUSED")
        assert workers[1].call("POST", "/connectors/c0/restart").status == 204
        assert workers[0].call("DELETE", "/connectors/c3").status == 204
        wait_for(lambda: workers[2].call("GET", "/connectors/c3").status == 404)
        # The leader leaves, and nothing is lost with it.
        workers[0].stop()
        wait_for(lambda: sorted(spread(workers[1]).values()) == [3, 3], str(spread(workers[1])))
        again = stack.enter_context(Worker(given, engine=RecordingEngine))
        wait_for(lambda: sorted(spread(again).values()) == [2, 2, 2], str(spread(again)))
    assert violations(tmp_path) == ""


def test_the_connectors_of_a_worker_that_is_gone_wait_for_it(broker: Broker, tmp_path: Path) -> None:
    given = properties(broker, tmp_path, "waiting", delay="600000")
    with Worker(given, engine=RecordingEngine) as first:
        first.wait_until_ready()
        with Worker(given, engine=RecordingEngine) as second:
            second.wait_until_ready()
            create(second, 4)
            wait_for(lambda: sorted(spread(first).values()) == [2, 2], str(spread(first)))
        # No other worker gets the connectors, although one is available.
        wait_for(lambda: sorted(spread(first).values()) == [2], str(spread(first)))
        with Worker(given, engine=RecordingEngine) as back:
            wait_for(lambda: sorted(spread(back).values()) == [2, 2], str(spread(back)))
    assert violations(tmp_path) == ""


def test_a_worker_that_hears_nothing_of_its_group_stops_its_connectors(tmp_path: Path) -> None:
    """Its session has expired by the time the broker is back, so other workers might own the connectors."""
    with Broker(data=tmp_path / "data", config={"group.min.session.timeout.ms": "500"}) as broker:
        given = properties(broker, tmp_path, "cut-off")
        with Worker(given, engine=RecordingEngine) as worker:
            worker.wait_until_ready()
            create(worker, 2)
            wait_for(lambda: sum(spread(worker).values()) == 2)
            assert worker.server is not None
            assert worker.server.herder is not None
            local = worker.server.herder.connectors
            broker.stop()
            wait_for(lambda: not local.names, "they still run")
            broker.start()
            wait_for(lambda: local.names == {"c0", "c1"}, "they do not run again")
    assert violations(tmp_path) == ""


def test_workers_reach_each_other_over_https(broker: Broker, tmp_path: Path) -> None:
    authority = make_authority()
    issued = authority.issue("worker", ["127.0.0.1"])
    given = {
        **properties(broker, tmp_path, "over-https"),
        "listeners": "https://127.0.0.1:0",
        "listeners.https.ssl.keystore.certificate.chain": issued.certificate_pem.decode(),
        "listeners.https.ssl.keystore.key": issued.key_pem.decode(),
        "listeners.https.ssl.truststore.certificates": authority.certificate_pem.decode(),
    }
    trusting = ssl.create_default_context(cadata=authority.certificate_pem.decode())

    def ask(worker: Worker, method: str, path: str, body: object = None) -> Any:
        request = urllib.request.Request(
            worker.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, context=trusting, timeout=30) as answer:
            return json.load(answer)

    with Worker(given, engine=RecordingEngine) as first, Worker(given, engine=RecordingEngine) as second:
        assert first.url.startswith("https://")
        for number, worker in enumerate((first, second)):
            ask(worker, "PUT", f"/connectors/c{number}/config", CONFIG)

        # One connector runs on the follower, which forwards its task configs to the leader.
        def have_tasks() -> bool:
            found = ask(second, "GET", "/connectors?expand=info")
            return len(found) == 2 and all(each["info"]["tasks"] for each in found.values())

        wait_for(have_tasks)
        statuses = ask(first, "GET", "/connectors?expand=status").values()
        assert len({each["status"]["connector"]["worker_id"] for each in statuses}) == 2
