"""Elections of leaders, asked of the controller."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.cli.errors import from_code
from ottla.cli.jobs.offsets import Partition

if TYPE_CHECKING:
    from ottla.cli.client import Client


def elect_leaders(
    client: Client, election_type: int, partitions: Sequence[Partition] | None
) -> dict[Partition, tuple[str, str | None]]:
    """What came of it for each partition: Kafka's name of the error and its explanation. None means all."""
    from ottla.protocol.errors import ErrorCode
    from ottla.protocol.messages.replicas import ElectLeadersRequest, ElectLeadersResponse, TopicPartitions

    asked: dict[str, list[int]] = {}
    for topic, number in partitions or ():
        asked.setdefault(topic, []).append(number)
    request = ElectLeadersRequest(
        election_type=election_type,
        topic_partitions=None
        if partitions is None
        else [TopicPartitions(topic=topic, partitions=numbers) for topic, numbers in asked.items()],
        timeout_ms=round(client.timeout * 1000),
    )
    answer = client.brokers.controller().request(request, ElectLeadersResponse)
    if answer.error_code:
        raise from_code(answer.error_code, None, "The election")
    return {
        (topic.topic, result.partition_id): (ErrorCode(result.error_code).name, result.error_message)
        for topic in answer.replica_election_results
        for result in topic.partition_result
    }
