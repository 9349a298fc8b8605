"""Problems of brokers, partitions and disks. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ottla.console.cluster.snapshot import Snapshot
from ottla.console.cluster.source import PartitionState
from ottla.console.health.facts import Facts
from ottla.console.health.problem import Problem

_DISK_FULL = 0.85
_DISK_OVERFLOWS = 0.95
_NAMED = 5
_OVERVIEW = ("overview",)


def of_brokers(facts: Facts) -> Iterator[Problem]:
    snapshot = facts.snapshot
    if facts.silent_seconds is not None:
        yield Problem(
            "error", "brokers", "",
            f"The cluster has not answered for {facts.silent_seconds:.0f} s. This is how it was before that.",
            "Check that the brokers run and that the console reaches their addresses.", _OVERVIEW,
        )  # fmt: skip
    if snapshot.topology.controller is None:
        yield Problem(
            "error", "brokers", "controller",
            "The cluster names no controller: topics and leaders cannot change.",
            "Check that ZooKeeper answers and that at least one broker reaches it.", _OVERVIEW,
        )  # fmt: skip
    for broker in sorted(snapshot.replicas_by_broker.keys() - snapshot.topology.brokers.keys()):
        yield Problem(
            "error", "brokers", str(broker), f"Broker {broker} is down, but replicas are assigned to it.",
            "Start it again. If it is lost for good, move its replicas to other brokers.",
            ("brokers", str(broker), "settings"),
        )  # fmt: skip


def of_partitions(facts: Facts) -> Iterator[Problem]:
    snapshot = facts.snapshot
    if snapshot.offline:
        named = _named(snapshot, snapshot.offline, _why_offline)
        yield Problem(
            "error", "partitions", "offline",
            f"Without a leader, hence neither written nor read: {_partitions(len(snapshot.offline))}{named}.",
            "Start the brokers that hold the replicas.", _page(snapshot.offline),
        )  # fmt: skip
    below = snapshot.below_min_isr
    if below:
        named = _named(snapshot, below, _why_below)
        yield Problem(
            "error", "partitions", "below min ISR",
            f"Below min.insync.replicas, hence not written with acks=all: {_partitions(len(below))}{named}.",
            "Start the missing brokers, or lower min.insync.replicas for the topic.", _page(below),
        )  # fmt: skip
    if snapshot.under_replicated:
        told = {*below, *snapshot.offline}
        others = [each for each in snapshot.under_replicated if each not in told]
        named = _named(snapshot, others, lambda found, _, each: _who_lacks(found, each))
        yield Problem(
            "warning", "partitions", "under-replicated",
            f"Replicas that are not in sync: {_partitions(len(snapshot.under_replicated))} affected{named}.",
            "Wait until the replicas have caught up. If they do not, check the disk and the network of their brokers.",
            _page(snapshot.under_replicated),
        )  # fmt: skip


def of_disks(facts: Facts) -> Iterator[Problem]:
    for broker, directories in sorted(facts.snapshot.volumes.items()):
        for directory in directories:
            if directory.error is not None:
                yield Problem(
                    "error", "disks", f"{broker}:{directory.path}",
                    f"Broker {broker}: log directory {directory.path} failed ({directory.error}).",
                    "Repair or replace the disk, then restart the broker.", _OVERVIEW,
                )  # fmt: skip
            elif directory.total_bytes and directory.usable_bytes is not None:
                used = 1 - directory.usable_bytes / directory.total_bytes
                if used > _DISK_FULL:
                    yield Problem(
                        "error" if used > _DISK_OVERFLOWS else "warning", "disks", f"{broker}:{directory.path}",
                        f"Broker {broker}: the disk of {directory.path} is {used:.0%} full.",
                        "Shorten the retention of large topics, move replicas elsewhere, or enlarge the disk.",
                        ("capacity",),
                    )  # fmt: skip


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _page(partitions: Sequence[tuple[str, int]]) -> tuple[str, ...]:
    topics = {topic for topic, _ in partitions}
    return ("topics", topics.pop(), "partitions") if len(topics) == 1 else _OVERVIEW


def _named(
    snapshot: Snapshot,
    partitions: Sequence[tuple[str, int]],
    why: Callable[[Snapshot, str, PartitionState], str],
) -> str:
    parts = []
    for topic, number in partitions[:_NAMED]:
        [state] = [each for each in snapshot.topics[topic].partitions if each.number == number]
        parts.append(f"{topic}-{number} ({why(snapshot, topic, state)})")
    if len(partitions) > _NAMED:
        parts.append(f"{len(partitions) - _NAMED:,} more")
    return f": {', '.join(parts)}" if parts else ""


def _why_offline(snapshot: Snapshot, _: str, state: PartitionState) -> str:
    down = [each for each in state.replicas if each not in snapshot.topology.brokers]
    if not down:
        return "its brokers are up, but none of them leads it"
    return f"{_brokers(down)} down"


def _why_below(snapshot: Snapshot, topic: str, state: PartitionState) -> str:
    return f"{len(state.isr)} in sync, {snapshot.min_isr[topic]} needed; {_who_lacks(snapshot, state)}"


def _who_lacks(snapshot: Snapshot, state: PartitionState) -> str:
    lacking = [each for each in state.replicas if each not in state.isr]
    down = [each for each in lacking if each not in snapshot.topology.brokers]
    behind = [each for each in lacking if each in snapshot.topology.brokers]
    parts = [f"{_brokers(down)} down"] if down else []
    parts += [f"{_brokers(behind)} up, but behind"] if behind else []
    return "; ".join(parts) or "it has fewer replicas than that"


def _brokers(numbers: Sequence[int]) -> str:
    if len(numbers) == 1:
        return f"broker {numbers[0]} is"
    return f"brokers {', '.join(map(str, numbers))} are"
