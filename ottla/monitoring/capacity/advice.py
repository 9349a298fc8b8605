"""Turn loads into advice, and requirements into a number of brokers. Pure; the limits are published ones."""

from __future__ import annotations

import math
from dataclasses import dataclass

from ottla.monitoring.capacity.load import ClusterFacts, Loads, Loss

# Turn loads into advice: shortages, full disks, recommended changes. Pure; the limits are published ones.

DAY = 86_400.0


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one broker. A broker above these shares counts as full, as in Cruise Control and other tools."""

    network: float | None = None  # bytes per second, per direction
    disk: int | None = None  # bytes, if the brokers do not report it
    replicas: int = 4000
    network_share: float = 0.8
    disk_share: float = 0.85
    cpu_share: float = 0.6


@dataclass(frozen=True, slots=True)
class DiskOutlook:
    used: float | None  # share of the disk, 0 to 1; None if its size is unknown
    later: float | None  # share needed once retention balances the growth
    full_in: float | None  # seconds until full; None if never or unknown


def disk_outlook(facts: ClusterFacts, loads: Loads, broker: int, limits: Limits) -> DiskOutlook:
    load, known = loads.brokers[broker], facts.brokers[broker]
    total = known.total or limits.disk
    if total is None or total <= 0:
        return DiskOutlook(None, None, None)
    usable = known.usable if known.usable is not None else max(0, total - load.stored)
    others = max(0, total - usable - load.stored)  # other files on the disk
    used = (total - usable) / total
    later = (others + load.stored_later) / total
    growth = load.bytes_in
    needed = load.stored_later - load.stored
    full_in = usable / growth if growth > 0 and needed > usable else None
    return DiskOutlook(used, later, full_in)


def advice(facts: ClusterFacts, loads: Loads, losses: list[Loss], limits: Limits) -> list[str]:
    """Return the operator's issues, the worst first."""
    found: list[str] = []
    factor = min(3, max(2, len(facts.brokers)))
    for loss in losses:
        if loss.offline:
            found.append(
                f"Without broker {loss.broker} {_partitions(len(loss.offline))} would be offline, such as "
                f"{_name(loss.offline[0])}: give their topics a replication factor of {factor}."
            )
        if loss.read_only:
            found.append(
                f"Without broker {loss.broker} {_partitions(len(loss.read_only))} could not be written with acks=all, "
                f"such as {_name(loss.read_only[0])}: min.insync.replicas should be less than the replicas."
            )
        if limits.network is not None and loss.busiest > limits.network * limits.network_share:
            found.append(
                f"Without broker {loss.broker} another would have {rate(loss.busiest)} to move, and "
                f"{rate(limits.network * limits.network_share)} is what its network should carry: add a broker."
            )
    for broker in sorted(loads.brokers):
        load, outlook = loads.brokers[broker], disk_outlook(facts, loads, broker, limits)
        if outlook.full_in is not None:
            found.append(
                f"The disk of broker {broker} is full in {duration(outlook.full_in)}, if it goes on like this: "
                "keep records for less time, or add disks or brokers."
            )
        elif outlook.used is not None and outlook.used > limits.disk_share:
            found.append(f"The disk of broker {broker} is {outlook.used:.0%} full.")
        if load.replicas > limits.replicas:
            found.append(
                f"Broker {broker} has {load.replicas:,} replicas; the recommended maximum is {limits.replicas:,}."
            )
        idle = facts.brokers[broker].idle
        if idle is not None and 1 - idle > limits.cpu_share:
            found.append(
                f"Broker {broker} is busy {1 - idle:.0%} of the time: it has no room for the work of another."
            )
    found += _balance(loads) + _replication(facts)
    return found


def _balance(loads: Loads) -> list[str]:
    """Report a broker that leads over 1.5 times the mean. Cruise Control draws the line at 1.1."""
    counts = {broker: load.leaders for broker, load in loads.brokers.items()}
    mean = sum(counts.values()) / len(counts) if counts else 0
    if len(counts) > 1 and mean >= 10 and max(counts.values()) > 1.5 * mean:
        most = max(counts, key=lambda broker: counts[broker])
        return [
            f"Broker {most} leads {counts[most]} partitions, and the mean is {mean:.0f}: "
            "`ottla cluster rebalance` evens that out."
        ]
    return []


def _replication(facts: ClusterFacts) -> list[str]:
    brokers = len(facts.brokers)
    lone = {name[0] for name, each in facts.partitions.items() if len(each.replicas) == 1}
    found = []
    if brokers == 1:
        found.append("There is only one broker, so its data has no other copy.")
    elif brokers == 2:
        found.append(
            "Two brokers survive no loss with min.insync.replicas=2, and may lose records with 1: three do."
        )
    elif lone:
        some = ", ".join(sorted(lone)[:3]) + (", …" if len(lone) > 3 else "")
        found.append(
            f"{len(lone)} topics have one replica ({some}): three, and min.insync.replicas=2, survive a loss."
        )
    return found


def partitions_for(target: float, produce: float, consume: float, consumers: int = 1) -> int:
    if min(produce, consume) <= 0:
        raise ValueError("the rates of a partition must be above 0")
    return max(math.ceil(target / produce), math.ceil(target / consume), consumers, 1)


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"


def _name(partition: tuple[str, int]) -> str:
    return f"{partition[0]}-{partition[1]}"


def rate(value: float) -> str:
    for unit, size in (("GB/s", 1e9), ("MB/s", 1e6), ("kB/s", 1e3)):
        if value >= size:
            return f"{value / size:.1f} {unit}"
    return f"{value:.0f} B/s"


def duration(seconds: float) -> str:
    if seconds >= 2 * DAY:
        return f"{seconds / DAY:.0f} days"
    if seconds >= 7200:
        return f"{seconds / 3600:.0f} hours"
    return f"{seconds / 60:.0f} minutes" if seconds >= 90 else "a minute"


# Requirements per broker, by the formulas in docs/how-to/plan-capacity.md. Pure.

_DISK_SHARE = 0.7  # planned share of a disk, which leaves room for a rebalance


@dataclass(frozen=True, slots=True)
class Plan:
    """W, R, G, T and B of the formulas; W in stored bytes per second, T in seconds."""

    ingress: float
    replication_factor: float
    groups: float
    retention: float
    brokers: int


@dataclass(frozen=True, slots=True)
class Needs:
    """Requirements of each broker while another one is down."""

    disk: float
    bytes_in: float
    bytes_out: float


def needs(plan: Plan) -> Needs:
    """Compute the needs with one broker down, whose load the others carry."""
    left = max(1, plan.brokers - 1)
    factor = min(plan.replication_factor, plan.brokers)
    return Needs(
        disk=plan.ingress * factor * plan.retention / (left * _DISK_SHARE),
        bytes_in=plan.ingress * factor / left,
        bytes_out=plan.ingress * (factor - 1 + plan.groups) / left,
    )


def brokers_for(plan: Plan, *, disk: float | None = None, network: float | None = None) -> int:
    """Return the smallest number of brokers within these limits, and at least the replication factor."""
    factor = plan.replication_factor
    wanted = [math.ceil(factor), 1]
    if disk:
        wanted.append(math.ceil(plan.ingress * factor * plan.retention / (disk * _DISK_SHARE)) + 1)
    if network:
        most = max(plan.ingress * factor, plan.ingress * (factor - 1 + plan.groups))
        wanted.append(math.ceil(most / network) + 1)
    return max(wanted)
