"""Source offsets in Kafka Connect's format: a compacted topic with schemaless JSON.

The key is `["connector",{partition}]`, the value `{offset}`, and null deletes the offset. Kafka compares keys byte by
byte. Existing keys are therefore rewritten unchanged, whatever the order of their fields.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from ottla.client.admin.topics import create_topic
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.settings import Settings
from ottla.connect.api import SourceOffset, SourcePartition
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.converters.json_format.writing import to_bytes, write_schemaless
from ottla.connect.errors import ConnectError
from ottla.connect.runtime.compacted_topic import CompactedTopic
from ottla.protocol.errors import ErrorCode
from ottla.spark.sink.sink_options import SinkOptions
from ottla.spark.sink.task import write_rows

_log = logging.getLogger(__name__)

#: A source partition and its offset. None resets the offset.
OffsetEntry = tuple[SourcePartition, SourceOffset | None]


def to_json(value: Any) -> bytes:
    """Serialize like Kafka's JsonConverter without a schema."""
    return to_bytes(write_schemaless(value))


class SourceOffsets:
    """The committed offsets of one connector. Partitions are compared by content."""

    def __init__(self, connector: str) -> None:
        self._connector = connector
        self._keys: dict[str, bytes] = {}
        self._entries: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}

    def get(self, partition: SourcePartition) -> dict[str, Any] | None:
        found = self._entries.get(_canonical(partition))
        return None if found is None else dict(found[1])

    def __iter__(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        return iter(self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def set(self, partition: SourcePartition, offset: SourceOffset | None) -> None:
        if offset is None:
            self._entries.pop(_canonical(partition), None)
        else:
            self._entries[_canonical(partition)] = dict(partition), dict(offset)

    def record(self, partition: SourcePartition, offset: SourceOffset | None) -> tuple[bytes, bytes | None]:
        name = _canonical(partition)
        key = self._keys.get(name)
        if key is None:
            key = self._keys[name] = to_json([self._connector, dict(partition)])
        return key, None if offset is None else to_json(dict(offset))

    def load(self, records: Mapping[bytes, bytes]) -> None:
        """Load the connector's offsets from topic records. Malformed records are ignored, as in Kafka."""
        for key, value in records.items():
            try:
                name, partition = json.loads(key)
                offset = json.loads(value)
            except (ValueError, TypeError):
                continue
            if name == self._connector and isinstance(partition, dict) and isinstance(offset, dict):
                canonical = _canonical(partition)
                self._keys[canonical] = key
                self._entries[canonical] = partition, offset


def _canonical(partition: SourcePartition) -> str:
    return json.dumps(dict(partition), sort_keys=True)


def read_offsets(
    cluster: Cluster,
    topics: Iterable[str],
    connector: str,
    known: Mapping[str, CompactedTopic] | None = None,
) -> SourceOffsets:
    """Read the committed offsets of a connector. Later topics override earlier ones.

    `known` topics are read incrementally, because reading from the start may take long.
    """
    found = SourceOffsets(connector)
    for topic in topics:
        reading = (known or {}).get(topic) or CompactedTopic(topic)
        found.load(reading.read(cluster))
    return found


class KnownOffsets:
    """The worker's cached offsets topic, so that tasks need not read the whole topic. Thread-safe."""

    def __init__(self, worker: WorkerConfig) -> None:
        self._worker = worker
        self._lock = threading.Lock()
        self._topic = CompactedTopic(worker.offset_topic) if worker.offset_topic else None

    def of(self, connector: str) -> dict[str, CompactedTopic]:
        """Return a copy for one task of the connector to read on. Every call returns another copy."""
        if self._topic is None:
            return {}
        with self._lock:
            self._read_on(self._topic)
            return {self._topic.name: self._topic.only(lambda key: _connector_of(key) == connector)}

    def read(self) -> None:
        """Read the topic in advance, which may take a while."""
        if self._topic is not None:
            with self._lock:
                self._read_on(self._topic)

    def _read_on(self, topic: CompactedTopic) -> None:
        cluster = Cluster(self._worker.client_settings)
        try:
            topic.read(cluster)
        except ClientError as error:
            _log.debug("Topic %s cannot be read now, and tasks will see to it: %s", topic.name, error.message)
        finally:
            cluster.close()


def _connector_of(key: bytes) -> str | None:
    try:
        name, _ = json.loads(key)
    except (ValueError, TypeError):
        return None
    return name if isinstance(name, str) else None


def offset_topics(worker_topic: str | None, config: Mapping[str, str]) -> list[str]:
    """Return the topics with a connector's offsets: the worker's topic, and the connector's own if it has one.

    Offsets are written to the last one.
    """
    own = config.get("offsets.storage.topic", "").strip()
    return [each for each in (worker_topic, own) if each]


def ensure_topic(cluster: Cluster, topic: str, worker: WorkerConfig) -> None:
    """Create a connector's missing offsets topic, with the settings of the worker's."""
    if topic in cluster.retrying(lambda: cluster.topics([topic]), [topic]):
        return
    partitions = worker.values.get("offset.storage.partitions", -1)
    replicas = worker.values.get("offset.storage.replication.factor", -1)
    try:
        create_topic(
            cluster,
            topic,
            partitions=None if partitions < 0 else partitions,
            replication_factor=None if replicas < 0 else replicas,
            configs={**worker.topic_settings("offset"), "cleanup.policy": "compact"},
        )
    except ClientError as error:
        if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
            raise ConnectError(
                f"Topic '{topic}', which offsets.storage.topic names, cannot be created: {error.message}",
                error.code,
            ) from error


def write_offsets(
    settings: Settings, topics: list[str], connector: str, offsets: Iterable[OffsetEntry]
) -> None:
    """The connector must be stopped."""
    cluster = Cluster(settings)
    try:
        known = read_offsets(cluster, topics, connector)
    finally:
        cluster.close()
    records = [known.record(partition, offset) for partition, offset in offsets]
    if not records:
        return
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([key for key, _ in records], pa.binary()),
            pa.array([value for _, value in records], pa.binary()),
        ],
        names=["key", "value"],
    )
    if not topics:
        raise ConnectError("The worker has no topic for offsets: set offset.storage.topic.")
    # Write to all topics, so that an offset reset in the connector's topic does not reappear from the worker's.
    for topic in topics:
        write_rows(SinkOptions(settings=settings, topic=topic), iter([rows]))


def reset_offsets(settings: Settings, topics: list[str], connector: str) -> int:
    """Return the number of offsets. The connector must be stopped."""
    cluster = Cluster(settings)
    try:
        known = read_offsets(cluster, topics, connector)
    finally:
        cluster.close()
    write_offsets(settings, topics, connector, [(partition, None) for partition, _ in known])
    return len(known)
