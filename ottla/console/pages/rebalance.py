"""Balance replicas, bytes and leaders over the brokers like `ottla cluster rebalance`, a few moves at a time."""

from __future__ import annotations

import json
from collections.abc import Iterator

from ottla.client.admin.log_dirs import describe_log_dirs
from ottla.client.admin.offsets import Partition
from ottla.client.admin.reassignments import list_reassignments, reassign
from ottla.client.cluster import Cluster
from ottla.console.access.roles import Level
from ottla.console.cluster.source import KafkaSource
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.plan import Change, Plan, is_confirmed, plan_page
from ottla.console.web.rendering import size
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response
from ottla.rebalancing.layout import Placed
from ottla.rebalancing.planner import TooFewBrokers, plan

#: Longer plans are unreadable; the rest comes with the next plan.
_AT_ONCE = 200
_PURPOSE = "rebalance"


def rebalance_routes() -> Iterator[Route]:
    yield Route("POST", f"{CLUSTER}/reassignments/rebalance", rebalance, Level.ADMIN, everywhere=True)


async def rebalance(visit: Visit) -> Page | Response:
    back = visit.url("reassignments")
    if is_confirmed(visit):
        # Execute exactly the displayed plan, which comes back signed.
        signed = visit.app.read_signed_link(visit, _PURPOSE, visit.form.get("plan"))
        if signed is None:
            raise HttpError(400, 400, "The plan is too old: make a new one.")
        wanted: dict[Partition, list[int] | None] = {
            (topic, number): replicas for topic, number, replicas in json.loads(signed)
        }
        refused = await visit.change("rebalance", f"{len(wanted)} partitions", reassign, wanted)
        done = len(wanted) - len(refused)
        return visit.redirect(back, f"{done} partitions are being moved.")
    moves, sizes = await visit.site.calls.read(_propose)
    if not moves:
        return visit.redirect(back, "Replicas and leaders are spread evenly: there is nothing to move.")
    chosen = dict(sorted(moves.items())[:_AT_ONCE])
    changes = [
        Change(
            f"{topic}-{number}",
            _list_moves(before),
            f"{_list_moves(after)} ({size(sizes.get((topic, number), 0))})",
        )
        for (topic, number), (before, after) in chosen.items()
    ]
    document = json.dumps([[*key, list(after)] for key, (_, after) in chosen.items()])
    visit.fields = [("plan", visit.app.signed_link(visit, _PURPOSE, document))]
    warnings = []
    if len(moves) > len(chosen):
        warnings.append(f"{len(moves) - len(chosen):,} more partitions are left for the next time.")
    return plan_page(visit, Plan("Rebalance the cluster", changes, "Move partitions", back, warnings))


Moves = dict[Partition, tuple[tuple[int, ...], tuple[int, ...]]]


def _propose(cluster: Cluster) -> tuple[Moves, dict[Partition, int]]:
    """Return replicas before and after, and sizes. Partitions that move or have an offline replica stay."""
    going = list_reassignments(cluster)
    topology = KafkaSource(cluster).topology()
    sizes: dict[Partition, int] = {}
    for broker in topology.brokers:
        for directory in describe_log_dirs(cluster, broker):
            for replica in directory.replicas:
                key = (replica.topic, replica.partition)
                sizes[key] = max(sizes.get(key, 0), replica.size)
    placed = {}
    for topic in topology.topics.values():
        for each in topic.partitions:
            if each.leader is not None:
                key = (topic.name, each.number)
                movable = key not in going and set(each.replicas) <= topology.brokers.keys()
                placed[key] = Placed(each.replicas, sizes.get(key, 0), movable)
    try:
        wanted = plan(placed, {broker: node.rack for broker, node in topology.brokers.items()})
    except TooFewBrokers as error:
        topic_name, number = error.name
        raise HttpError(
            400,
            400,
            f"{topic_name}-{number} has {error.replicas} replicas, and there are {error.brokers} brokers.",
        ) from None
    return {key: (placed[key].replicas, tuple(after)) for key, after in wanted.items()}, sizes


def _list_moves(replicas: tuple[int, ...]) -> str:
    return ", ".join(map(str, replicas))
