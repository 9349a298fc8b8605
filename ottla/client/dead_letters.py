"""Dead letters: headers of their records, and the progress of a replay."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from ottla.client.admin.groups import CommittedOffset, committed
from ottla.client.admin.offsets import Partition, earliest_offsets
from ottla.client.admin.topics import partitions_of
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.fetch import FetchOptions, PartitionFetcher
from ottla.client.offsets import commit_offsets
from ottla.protocol import share_dead_letters as share
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records import Record, read_records

# Headers of dead-letter records: origin of the record, and the reason of its failure.
#
# There are three sets: Ottla's, Kafka Connect's for records that a sink could not store, and those of share groups.

PREFIX = "ottla.dead.letter."
ERROR = PREFIX + "error"
REASON = PREFIX + "reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
#: In milliseconds; the dead letter's own timestamp is the time of its writing.
TIMESTAMP = PREFIX + "timestamp"

CONNECT_PREFIX = "__connect.errors."
#: Kafka Connect's names. Its dead letters keep the timestamp of the original record.
CONNECT_NAMES = {
    CONNECT_PREFIX + "exception.class.name": ERROR,
    CONNECT_PREFIX + "exception.message": REASON,
    CONNECT_PREFIX + "topic": TOPIC,
    CONNECT_PREFIX + "partition": PARTITION,
    CONNECT_PREFIX + "offset": OFFSET,
}
#: Names of share groups (KIP-1191). By default their letters have neither the key nor the value of the record.
SHARE_NAMES = {
    share.MESSAGE: REASON,
    share.TOPIC: TOPIC,
    share.PARTITION: PARTITION,
    share.OFFSET: OFFSET,
}
_NAMES = CONNECT_NAMES | SHARE_NAMES
_PREFIXES = (PREFIX, CONNECT_PREFIX, share.PREFIX)


def why(headers: Iterable[tuple[str, bytes | None]]) -> dict[str, str]:
    """Return the headers' information under Ottla's names, even if Kafka or Kafka Connect wrote them."""
    return {
        _NAMES.get(name, name): (value or b"").decode("utf-8", "replace")
        for name, value in headers
        if name.startswith(PREFIX) or name in _NAMES
    }


def own_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[tuple[str, bytes | None]]:
    """Return the headers from before the failure."""
    return [(name, value) for name, value in headers if not name.startswith(_PREFIXES)]


# The records behind the letters of share groups, fetched by their offsets.

_FETCH = FetchOptions(max_bytes=1 << 20, max_wait_ms=100)


class Letter(Protocol):
    @property
    def timestamp(self) -> int | None: ...

    @property
    def key(self) -> bytes | None: ...

    @property
    def value(self) -> bytes | None: ...

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]: ...


class Originals:
    """Records as they were before they became dead letters."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._fetched: dict[Partition, dict[int, Record]] = {}

    def of(self, letter: Letter) -> Record | None:
        """Return the record, or None if it is gone and the letter has no copy."""
        known = why(letter.headers)
        if not any(name == share.TOPIC for name, _ in letter.headers):
            timestamp = known.get(TIMESTAMP, "")
            own = int(timestamp) if timestamp.isdigit() else letter.timestamp or 0
            return Record(0, own, letter.key, letter.value, own_headers(letter.headers))
        partition, offset = known.get(PARTITION, ""), known.get(OFFSET, "")
        found = None
        if partition.isdigit() and offset.isdigit():
            found = self._fetch((known[TOPIC], int(partition)), int(offset))
        if found is not None:
            return Record(0, found.timestamp, found.key, found.value, found.headers)
        if letter.key is None and letter.value is None:
            return None
        return Record(0, letter.timestamp or 0, letter.key, letter.value, own_headers(letter.headers))

    def _fetch(self, partition: Partition, offset: int) -> Record | None:
        fetched = self._fetched.setdefault(partition, {})
        if offset not in fetched:
            fetched.clear()
            fetcher = PartitionFetcher(self._cluster, TopicPartition(*partition), _FETCH)
            try:
                records = self._cluster.retrying(lambda: fetcher.fetch(offset), [partition[0]]).records
                for _, batch in read_records(records):
                    fetched.update({record.offset: record for record in batch})
            except ClientError as error:
                if error.code not in (ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
                    raise
            except KafkaError as error:
                raise ClientError(f"Offset {offset} of {partition[0]}-{partition[1]}: {error}") from None
            finally:
                fetcher.close()
        return fetched.get(offset)


# Progress of replaying a dead-letter topic.
#
# The offsets of a consumer group record the replayed messages: everything before a partition's committed
# offset, plus the offsets listed in the commit's metadata, because messages can be replayed out of order.

#: Broker default of offset.metadata.max.bytes.
_MOST_METADATA = 4096


class Placed(Protocol):
    """A message's position, for progress."""

    @property
    def topic(self) -> str: ...

    @property
    def partition(self) -> int: ...

    @property
    def offset(self) -> int: ...


def group_of(topic: str) -> str:
    return f"ottla-deadletter-{topic}"


class Progress:
    """Replayed offsets of a dead-letter topic."""

    def __init__(self, cluster: Cluster, topic: str) -> None:
        self._cluster = cluster
        self._group = group_of(topic)
        positions = committed(self._cluster, self._group)
        self._done: dict[Partition, list[range]] = {}
        for key, first in earliest_offsets(self._cluster, partitions_of(self._cluster, [topic])).items():
            position = positions.get(key, CommittedOffset(0, None, ""))
            self._done[key] = merge([range(max(position.offset, first)), *parse_ranges(position.metadata)])
        self._changed: set[Partition] = set()

    def is_done(self, message: Placed) -> bool:
        return any(message.offset in each for each in self._done[message.topic, message.partition])

    def waiting(self, ends: Mapping[Partition, int]) -> int:
        """Count the offsets below these ends that are not done."""
        return sum(
            max(end - sum(len(range(each.start, min(each.stop, end))) for each in self._done[key]), 0)
            for key, end in ends.items()
            if key in self._done
        )

    def add(self, messages: Iterable[Placed]) -> None:
        """Mark these as done. Raises ClientError if the metadata cannot hold all gaps."""
        for message in messages:
            key = (message.topic, message.partition)
            self._done[key] = merge([*self._done[key], range(message.offset, message.offset + 1)])
            self._changed.add(key)
        for key in self._changed:
            if len(format_ranges(self._done[key][1:])) > _MOST_METADATA:
                raise ClientError(
                    f"Partition {key[1]} of '{key[0]}' would have too many gaps to remember: "
                    "replay the others first, without --reason."
                )

    def commit(self) -> None:
        offsets, metadata = {}, {}
        for key in sorted(self._changed):
            first, *others = self._done[key]
            partition = TopicPartition(*key)
            offsets[partition] = first.stop if first.start == 0 else 0
            metadata[partition] = format_ranges(others if first.start == 0 else [first, *others])
        self._changed.clear()
        if offsets:
            commit_offsets(self._cluster, self._group, offsets, metadata=metadata)


# Sorted disjoint ranges of offsets


def merge(ranges: Iterable[range]) -> list[range]:
    merged: list[range] = []
    for each in sorted((each for each in ranges if each), key=lambda each: each.start):
        if merged and each.start <= merged[-1].stop:
            merged[-1] = range(merged[-1].start, max(merged[-1].stop, each.stop))
        else:
            merged.append(each)
    return merged


def parse_ranges(text: str) -> list[range]:
    """Parse "3-5,9" as 3, 4, 5 and 9. Other metadata is ignored."""
    found = []
    for part in text.split(",") if text else ():
        first, _, last = part.partition("-")
        if not first.isdigit() or not (last or first).isdigit():
            return []
        found.append(range(int(first), int(last or first) + 1))
    return found


def format_ranges(ranges: Iterable[range]) -> str:
    return ",".join(str(each.start) if len(each) == 1 else f"{each.start}-{each.stop - 1}" for each in ranges)
