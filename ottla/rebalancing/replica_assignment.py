"""Kafka's replica assignment algorithm. Pure, without random numbers.

Brokers use it for new topics and partitions (`cluster.topics.topic_decisions`, which also validates client requests),
and kafka-reassign-partitions for its proposals. `rebalancing.planner` balances existing assignments.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def spread_replicas(
    racks: Mapping[int, str | None],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int,
    shift: int,
    first_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Assign `partitions` partitions, counted from `first_partition`, to the brokers of `racks` (id → rack).

    Leaders are assigned round robin from `start_index`. `shift`, which grows with each round, spreads followers so that
    many brokers share the load of a lost one. If every broker has a rack, a partition's replicas use as many racks as
    possible; otherwise racks are ignored. Requires at least `replication_factor` brokers.
    """
    rack_of = {broker: rack for broker, rack in racks.items() if rack is not None}
    if len(rack_of) < len(racks):
        brokers, rack_of = sorted(racks), {}
    else:
        brokers = _alternate_racks(rack_of)
    rack_count = len(set(rack_of.values()))
    assignment = {}
    for partition in range(first_partition, first_partition + partitions):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader = (partition + start_index) % len(brokers)
        if rack_of:
            replicas = _across_racks(brokers, rack_of, rack_count, leader, shift, replication_factor)
        else:
            followers = range(replication_factor - 1)
            replicas = [
                brokers[leader],
                *(brokers[_follower(leader, shift, k, len(brokers))] for k in followers),
            ]
        assignment[partition] = tuple(replicas)
    return assignment


def _follower(leader: int, shift: int, k: int, brokers: int) -> int:
    return (leader + 1 + (shift + k) % (brokers - 1)) % brokers


def _across_racks(
    brokers: Sequence[int],
    rack_of: Mapping[int, str],
    rack_count: int,
    leader: int,
    shift: int,
    replication_factor: int,
) -> list[int]:
    replicas = [brokers[leader]]
    racks = {rack_of[brokers[leader]]}
    k = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower(leader, shift * rack_count, k, len(brokers))]
        k += 1
        if broker not in replicas and (rack_of[broker] not in racks or len(racks) == rack_count):
            replicas.append(broker)
            racks.add(rack_of[broker])
    return replicas


def _alternate_racks(rack_of: Mapping[int, str]) -> list[int]:
    """Order the brokers so that neighbours are in different racks as far as possible."""
    by_rack: dict[str, list[int]] = {}
    for broker in sorted(rack_of):
        by_rack.setdefault(rack_of[broker], []).append(broker)
    columns = [by_rack[rack] for rack in sorted(by_rack)]
    return [
        column[row]
        for row in range(max(map(len, columns), default=0))
        for column in columns
        if row < len(column)
    ]
