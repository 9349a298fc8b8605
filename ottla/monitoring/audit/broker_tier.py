"""The process that counts for a broker. It reads the broker's partitions from the page cache, so appends cost nothing.

The broker starts it with `ottla.audit.enable` and sends lines of JSON over standard input, a socket. The first line has
the settings; `{"op": "finish"}` requests a last round. The process ends when the broker disconnects.
"""

from __future__ import annotations

import json
import re
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.offsets import LATEST, READ_COMMITTED, list_offsets
from ottla.client.settings import Settings
from ottla.monitoring.audit.audit_topic import (
    AUDIT_TOPIC,
    FollowedTierCounts,
    ensure_audit_topic,
    write_entries,
)
from ottla.monitoring.audit.count_reports import Entry, Round
from ottla.monitoring.audit.counting import (
    CountedPartition,
    Tier,
    compacted_topics,
    count_partition,
    known_position,
)
from ottla.protocol.errors import KafkaError
from ottla.protocol.internal_topics import is_internal

_CLIENT_ID = "ottla-audit"
#: Failed rounds are retried, so timeouts can be short.
_TIMEOUTS = {"request.timeout.ms": "10000", "default.api.timeout.ms": "10000"}
_PAGES_AT_ONCE = 64
_ASK_SECONDS = 2.0
#: Rounds between checks for compacted topics.
_ROUNDS_WITH_CONFIGS = 10


@dataclass(frozen=True)
class TierSettings:
    broker: int
    tier: Tier
    interval: float  # seconds
    topics: re.Pattern[str]
    replication_factor: int  # for the audit topic
    audit_topic: str = AUDIT_TOPIC

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> TierSettings:
        host = f"{socket.gethostname()}/{data['broker']}"
        tier = Tier(data["tier"], data["bucket_ms"], host=host, has_checksums=data["checksums"])
        topics = re.compile(data["topics"])
        return cls(data["broker"], tier, data["interval_ms"] / 1000, topics, data["replication_factor"])


class BrokerTier:
    """Counts the partitions led by one broker. Used by one thread."""

    def __init__(self, cluster: Cluster, settings: TierSettings) -> None:
        self._cluster = cluster
        self._settings = settings
        self._tier = settings.tier
        self._tier_counts = FollowedTierCounts(cluster, settings.audit_topic)
        self._epochs: dict[
            tuple[bytes, int], int
        ] = {}  # leader epochs of counted partitions at the time of the count
        self._compacted: dict[bytes, bool] = {}
        self._rounds = 0

    def count(self) -> int:
        """Count new records and write them to the counts. Return their number. Raises ClientError."""
        settings = self._settings
        began_ms = time.time_ns() // 1_000_000
        ensure_audit_topic(self._cluster, settings.audit_topic, settings.replication_factor)
        tier_counts = (
            self._tier_counts.catch_up()
        )  # includes other brokers' counts of partitions now led here
        if self._tier.counter == 0:
            self._tier = replace(self._tier, counter=tier_counts.next_counter(began_ms))
        self._rounds += 1
        if self._rounds % _ROUNDS_WITH_CONFIGS == 0:
            self._compacted.clear()
        led = self._led()
        ends = self._ends([each.partition for each in led])
        led = [each for each in led if each.partition in ends]
        records = 0
        waiting: list[Entry] = []
        for each in led:
            counted = replace(each, end=ends[each.partition])
            place = (each.topic_id, each.partition.partition)
            is_same_leader = self._epochs.get(place) == each.leader_epoch
            position = known_position(counted, self._tier, tier_counts)
            if not is_same_leader or position is None or position.end != counted.end:
                for report in count_partition(
                    self._cluster, counted, self._tier, tier_counts, check_epoch=not is_same_leader
                ):
                    records += report.records
                    waiting.append(report)
                    if len(waiting) >= _PAGES_AT_ONCE:
                        self._write(waiting)
                        waiting = []
            self._epochs[place] = each.leader_epoch
        counted_partitions: dict[str, list[int]] = {}
        for each in led:
            counted_partitions.setdefault(each.partition.topic, []).append(each.partition.partition)
        if counted_partitions:
            finished = Round(self._tier.name, self._tier.host, began_ms, counted_partitions)
            self._write([*waiting, finished])
        return records

    def _ends(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the ends of committed records. Partitions without an answer are counted later."""

        def ask(some: list[TopicPartition]) -> dict[TopicPartition, int]:
            found = list_offsets(self._cluster, dict.fromkeys(some, LATEST), READ_COMMITTED, _ASK_SECONDS)
            return {partition: each.offset for partition, each in found.items()}

        try:
            return ask(partitions)
        except ClientError:
            ends: dict[TopicPartition, int] = {}
            for each in partitions:
                with suppress(ClientError):
                    ends |= ask([each])
            return ends

    def _write(self, entries: list[Entry]) -> None:
        """Write entries and add them to the counts now: an open transaction of a pipeline may delay reading them."""
        write_entries(self._cluster, entries, self._settings.audit_topic)
        for entry in entries:
            self._tier_counts.tier_counts.add(entry)

    def forget(self) -> None:
        """Reset after a failure: counts may not have been written, and leaders may have changed."""
        self._epochs.clear()
        self._compacted.clear()

    def _led(self) -> list[CountedPartition]:
        described = [
            topic
            for topic in self._cluster.metadata(None).topics
            if not topic.error_code and self._is_counted(topic.name)
        ]
        self._cluster.topics([topic.name or "" for topic in described])
        found = {topic.topic_id: topic.name or "" for topic in described}
        unknown = [name for topic_id, name in found.items() if topic_id not in self._compacted]
        compacted = compacted_topics(self._cluster, unknown) if unknown else set()
        self._compacted = {
            topic_id: self._compacted.get(topic_id, name in compacted) for topic_id, name in found.items()
        }
        return [
            CountedPartition(
                TopicPartition(topic.name or "", part.partition_index), topic.topic_id, part.leader_epoch
            )
            for topic in described
            if not self._compacted[topic.topic_id]
            for part in topic.partitions
            if part.leader_id == self._settings.broker
        ]

    def _is_counted(self, topic: str | None) -> bool:
        if not topic or is_internal(topic) or topic.startswith("__"):
            return False
        return self._settings.topics.fullmatch(topic) is not None


def run(channel: socket.socket) -> None:
    """Count until the broker disconnects or requests the last round."""
    lines = _Lines(channel)
    first = lines.next(None)
    if first is None:
        return
    settings = TierSettings.from_json(first)
    cluster = Cluster(Settings.from_properties({**_TIMEOUTS, **first["properties"]}, _CLIENT_ID))
    counter = BrokerTier(cluster, settings)
    try:
        is_last = False
        while not is_last and lines.is_open:
            is_last = (lines.next(settings.interval) or {}).get("op") == "finish"
            if not lines.is_open:
                return
            _say(channel, **_round(counter), is_last=is_last)
    finally:
        cluster.close()


def _round(counter: BrokerTier) -> dict[str, Any]:
    began = time.monotonic()
    try:
        records = counter.count()
    except (ClientError, KafkaError) as error:
        counter.forget()
        return {"event": "failed", "message": getattr(error, "message", None) or str(error)}
    return {"event": "counted", "records": records, "seconds": time.monotonic() - began}


def _say(channel: socket.socket, **event: Any) -> None:
    channel.settimeout(None)
    with suppress(OSError):  # the broker has disconnected, as the next read shows
        channel.sendall(json.dumps(event).encode() + b"\n")


class _Lines:
    """Lines from the broker, with a timeout."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._rest = b""
        self.is_open = True

    def next(self, seconds: float | None) -> dict[str, Any] | None:
        """Return None after the timeout or at the end."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while b"\n" not in self._rest:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._channel.settimeout(left)
            try:
                more = self._channel.recv(65536)
            except TimeoutError:
                return None
            except OSError:
                more = b""
            if not more:
                self.is_open = False
                return None
            self._rest += more
        line, _, self._rest = self._rest.partition(b"\n")
        found: dict[str, Any] = json.loads(line)
        return found


if __name__ == "__main__":
    run(socket.socket(fileno=0))
