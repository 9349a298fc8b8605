"""Requirements per broker, by the formulas in docs/how-to/plan-capacity.md. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

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
