"""Shows, alters and resets offsets for the REST API: in the offsets topic for sources, in the group for sinks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any

from ottla.client.admin.groups import committed_offsets, delete_groups, delete_offsets
from ottla.client.admin.offsets import Partition
from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError, GroupNotFound
from ottla.client.offsets import commit_offsets
from ottla.client.settings import Settings
from ottla.connect.api import SinkConnector, SourceConnector
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.errors import ConnectError
from ottla.connect.plugins import load_class
from ottla.connect.runtime.offsets import offset_topics, read_offsets, reset_offsets, write_offsets
from ottla.connect.runtime.tasks.clients import client_properties
from ottla.connect.worker import errors
from ottla.connect.worker.errors import RequestError
from ottla.protocol.errors import ErrorCode

Json = dict[str, Any]
Offsets = Sequence[tuple[Json, Json | None]]

_ALTERED = "The offsets for this connector have been altered successfully"
_RESET = "The offsets for this connector have been reset successfully"
_TOPIC, _PARTITION, _OFFSET = "kafka_topic", "kafka_partition", "kafka_offset"


class OffsetRequests:
    def __init__(self, worker: WorkerConfig, offset_topic: str | None = None) -> None:
        self._worker = worker
        self._offset_topic = offset_topic or worker.offset_topic

    def get(self, name: str, config: Mapping[str, str]) -> Json:
        if _is_sink(config):
            found = self._committed(name, config)
            offsets = [
                {"partition": {_TOPIC: topic, _PARTITION: number}, "offset": {_OFFSET: offset}}
                for (topic, number), offset in sorted(found.items())
            ]
            return {"offsets": offsets}
        with closing(Cluster(self._worker.client_settings)) as cluster:
            entries = read_offsets(cluster, offset_topics(self._offset_topic, config), name)
        return {"offsets": [{"partition": partition, "offset": offset} for partition, offset in entries]}

    def alter(self, name: str, config: Mapping[str, str], offsets: Offsets) -> str:
        connector = load_class(config.get("connector.class", ""))
        if issubclass(connector, SinkConnector):
            self._alter_group(name, config, _sink_offsets(offsets))
            return _ALTERED
        if issubclass(connector, SourceConnector):
            try:
                connector().check_offsets(config, offsets)
            except ConnectError as error:
                raise RequestError(500, error.message) from None
        topics = offset_topics(self._offset_topic, config)
        write_offsets(self._worker.client_settings, topics, name, offsets)
        return _ALTERED

    def reset(self, name: str, config: Mapping[str, str]) -> str:
        if _is_sink(config):
            with self._cluster(config) as cluster:
                try:
                    delete_groups(cluster, [group_of(name, config)])
                except ClientError as error:
                    if error.code not in (ErrorCode.GROUP_ID_NOT_FOUND, ErrorCode.NON_EMPTY_GROUP):
                        raise
                    if error.code is ErrorCode.NON_EMPTY_GROUP:
                        raise _still_active(name) from None
            return _RESET
        topics = offset_topics(self._offset_topic, config)
        reset_offsets(self._worker.client_settings, topics, name)
        return _RESET

    # Sinks

    def _cluster(self, config: Mapping[str, str]) -> closing[Cluster]:
        properties = client_properties(self._worker, config, "admin")
        return closing(Cluster(Settings.from_properties(properties, self._worker.client_id)))

    def _committed(self, name: str, config: Mapping[str, str]) -> dict[Partition, int]:
        with self._cluster(config) as cluster:
            try:
                return committed_offsets(cluster, group_of(name, config))
            except GroupNotFound:
                return {}

    def _alter_group(
        self, name: str, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]
    ) -> None:
        group = group_of(name, config)
        kept = {each: offset for each, offset in offsets.items() if offset is not None}
        gone = [each for each, offset in offsets.items() if offset is None]
        with self._cluster(config) as cluster:
            try:
                if kept:
                    _check_there(cluster, name, kept)
                    commit_offsets(cluster, group, kept)
                if gone:
                    delete_offsets(cluster, group, gone)
            except ClientError as error:
                if error.code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.NON_EMPTY_GROUP):
                    raise _still_active(name) from None
                if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise _not_there(name) from None
                if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                    raise


def group_of(name: str, config: Mapping[str, str]) -> str:
    return config.get("consumer.override.group.id", "").strip() or f"connect-{name}"


def _is_sink(config: Mapping[str, str]) -> bool:
    return issubclass(load_class(config.get("connector.class", "")), SinkConnector)


def _check_there(cluster: Cluster, name: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Check the topics immediately. A commit would retry for a minute, because brokers may not know a new topic yet."""
    names = sorted({each.topic for each in offsets})
    topics = cluster.retrying(lambda: cluster.topics(names), names)
    if not all(each.topic in topics and each.partition in topics[each.topic].leaders for each in offsets):
        raise _not_there(name)


def _not_there(name: str) -> RequestError:
    return RequestError(
        500, f"Failed to alter consumer group offsets for connector {name}: a partition does not exist"
    )


def _still_active(name: str) -> RequestError:
    return RequestError(
        500,
        f"Failed to alter consumer group offsets for connector {name} either because its tasks haven't stopped "
        "completely yet or the consumer group was not empty",
    )


def _sink_offsets(offsets: Offsets) -> dict[TopicPartition, int | None]:
    found: dict[TopicPartition, int | None] = {}
    for partition, offset in offsets:
        if not isinstance(partition, dict) or _TOPIC not in partition or _PARTITION not in partition:
            raise errors.bad_request(
                "The partition for a sink connector offset must contain the keys 'kafka_topic' and 'kafka_partition'"
            )
        if not isinstance(partition[_TOPIC], str):
            raise errors.bad_request("Kafka topic names must be valid strings and may not be null")
        number = _whole(partition[_PARTITION], "partition")
        found[TopicPartition(partition[_TOPIC], number)] = None if offset is None else _sink_offset(offset)
    return found


def _sink_offset(offset: Any) -> int:
    if not isinstance(offset, dict) or _OFFSET not in offset:
        raise errors.bad_request(
            "The offset for a sink connector should either be null or contain the key 'kafka_offset'"
        )
    return _whole(offset[_OFFSET], "offset")


def _whole(value: Any, what: str) -> int:
    try:
        number = int(str(value))
    except ValueError:
        raise errors.bad_request(
            f"Failed to parse the following Kafka {what} value in the provided offsets: '{value}'. "
            f"{what.capitalize()} values for sink connectors need to be integers."
        ) from None
    if number < 0:
        raise errors.bad_request(f"The Kafka {what} value {number} in the provided offsets is negative.")
    return number
