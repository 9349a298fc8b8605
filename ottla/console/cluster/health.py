"""Whether a cluster is well, and if not, why: pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ottla.console.cluster.snapshot import Snapshot

_DISK_FULL = 0.85


@dataclass(frozen=True, slots=True)
class Reason:
    severity: Literal["error", "warning"]
    text: str


def reasons(snapshot: Snapshot) -> list[Reason]:
    """The worst first; none if all is well."""
    errors, warnings = [], []
    topology = snapshot.topology
    if snapshot.offline:
        errors.append(
            f"Without a leader, hence neither written nor read: {_partitions(len(snapshot.offline))}."
        )
    if topology.controller is None:
        errors.append("The cluster names no controller: topics and leaders cannot change.")
    errors += [
        f"Broker {broker} is down, but replicas are assigned to it."
        for broker in sorted(snapshot.replicas_by_broker.keys() - topology.brokers.keys())
    ]
    for broker, directories in sorted(snapshot.volumes.items()):
        for directory in directories:
            if directory.error is not None:
                errors.append(f"Broker {broker}: log directory {directory.path} failed ({directory.error}).")
            elif directory.total_bytes and directory.usable_bytes is not None:
                used = 1 - directory.usable_bytes / directory.total_bytes
                if used > _DISK_FULL:
                    warnings.append(f"Broker {broker}: the disk of {directory.path} is {used:.0%} full.")
    if snapshot.under_replicated:
        warnings.append(
            f"Replicas that are not in sync: {_partitions(len(snapshot.under_replicated))} affected."
        )
    return [Reason("error", text) for text in errors] + [Reason("warning", text) for text in warnings]


def _partitions(count: int) -> str:
    return "1 partition" if count == 1 else f"{count:,} partitions"
