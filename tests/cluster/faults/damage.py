"""Disks that flip bits: damages a replica, and repairs it the way an operator would."""

from __future__ import annotations

import random
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from ottla.testing import Cluster


@dataclass(frozen=True, slots=True)
class Damage:
    """One flipped bit of a replica. The broker may know about it after reading it."""

    broker: int
    topic: str
    partition: int
    said_before: int  # size of the broker's log file

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition} of broker {self.broker}"

    def is_known(self, cluster: Cluster) -> bool:
        """Return True if the broker's log reports the damage."""
        said = cluster.log(self.broker).read_bytes()[self.said_before :]
        return f"{self.topic}-{self.partition} is offline".encode() in said

    def repair(self, cluster: Cluster) -> None:
        """Remove the replica while the broker is stopped. The broker then replicates it from the beginning.

        Only for a broker that is not the last one in sync, so that the other brokers take precedence.
        """
        others = set(cluster.ports) - {self.broker}

        def others_in_sync() -> bool:
            view = cluster.partition(self.topic, self.partition)
            return view is not None and others <= set(view.isr)

        cluster.wait_until(others_in_sync, f"others than {self} are in sync", 60)
        if self.broker in cluster.running():
            cluster.stop(self.broker)
        shutil.rmtree(directory(cluster, self.broker, self.topic, self.partition))
        cluster.restart(self.broker)
        cluster.wait_for_isr(self.topic, cluster.ports, self.partition, 60)


def directory(cluster: Cluster, broker: int, topic: str, partition: int) -> Path:
    return cluster.directory(broker) / f"{topic}-{partition}"


def segments(cluster: Cluster, broker: int, topic: str, partition: int) -> list[Path]:
    """Return the segments with records, oldest first."""
    found = sorted(directory(cluster, broker, topic, partition).glob("*.log"))
    return [segment for segment in found if segment.stat().st_size]


def flip_a_bit(rng: random.Random, segment: Path) -> str:
    """Flip a random bit and return its position."""
    place, bit = rng.randrange(segment.stat().st_size), rng.randrange(8)
    with segment.open("r+b") as file:
        file.seek(place)
        [byte] = file.read(1)
        file.seek(place)
        file.write(bytes([byte ^ (1 << bit)]))
    return f"bit {bit} of byte {place} in {segment}"


def differing_replicas(cluster: Cluster, topic: str, partitions: int) -> list[str]:
    """Return the replicas that do not become byte-for-byte equal after writes stop."""
    deadline = time.monotonic() + 20
    while (different := _differing(cluster, topic, partitions)) and time.monotonic() < deadline:
        time.sleep(0.1)
    return different


def _differing(cluster: Cluster, topic: str, partitions: int) -> list[str]:
    different = []
    for partition in range(partitions):
        copies = {
            broker: b"".join(each.read_bytes() for each in segments(cluster, broker, topic, partition))
            for broker in cluster.ports
        }
        if len(set(copies.values())) > 1:
            sizes = {broker: len(copy) for broker, copy in copies.items()}
            different.append(f"{topic}-{partition}: {sizes} bytes")
    return different
