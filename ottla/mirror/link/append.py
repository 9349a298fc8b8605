"""Client side of MirrorAppend: checks that the broker supports it and appends to partition leaders."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, error_code
from ottla.mirror.errors import CannotMirror
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, ApiVersionsResponse
from ottla.protocol.messages.produce import (
    MirrorAppendPartition,
    MirrorAppendPartitionResult,
    MirrorAppendRequest,
    MirrorAppendResponse,
    MirrorAppendTopic,
)


class NoRoom(ClientError):
    """The target's disk is full or failing. The copy reports this and waits."""

    @property
    def is_retriable(self) -> bool:
        return False  # the disk will not recover within a retry


def check_target(connection: Connection) -> None:
    """Raise CannotMirror if the broker lacks MirrorAppend, which it lists only for clients named ottla."""
    if MirrorAppendRequest.api_key in connection.versions:
        return
    asked = ApiVersionsRequest(client_software_name="ottla", client_software_version=version("ottla"))
    answer = connection.request(asked, ApiVersionsResponse)
    connection.versions.update({api.api_key: (api.min_version, api.max_version) for api in answer.api_keys})
    if MirrorAppendRequest.api_key not in connection.versions:
        raise CannotMirror(
            f"The broker at {connection.where} cannot keep the offsets of another cluster: only Ottla can. "
            "To copy to Apache Kafka, use 'ottla mirror start'."
        )


def mirror_append(
    target: Cluster, link: str, partition: TopicPartition, records: Any = b"", log_start_offset: int = -1
) -> MirrorAppendPartitionResult:
    """Return the leader's response, including error responses. Without records, only ask for the offsets of the log."""
    leader = target.leader(partition)
    check_target(leader)
    request = MirrorAppendRequest(
        link=link,
        timeout_ms=int(target.settings.request_timeout * 900),
        topics=[
            MirrorAppendTopic(
                name=partition.topic,
                partitions=[
                    MirrorAppendPartition(
                        index=partition.partition, log_start_offset=log_start_offset, records=records
                    )
                ],
            )
        ],
    )
    answer = leader.request(request, MirrorAppendResponse)
    return answer.topics[0].partitions[0]


def check_appended(partition: TopicPartition, result: MirrorAppendPartitionResult) -> None:
    code = error_code(result.error_code)
    if code != ErrorCode.NONE:
        said = f": {result.error_message.rstrip('.')}" if result.error_message else ""
        kind = NoRoom if code == ErrorCode.KAFKA_STORAGE_ERROR else ClientError
        raise kind(f"Partition {partition} of the target cannot be written, {code.name}{said}.", code)
