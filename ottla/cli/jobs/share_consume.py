"""Consuming as a member of a share group."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from ottla.cli.errors import from_kafka
from ottla.cli.jobs.consume import consumed

if TYPE_CHECKING:
    from confluent_kafka import Message

    from ottla.cli.client import Client
    from ottla.cli.jobs.messages import ConsumedMessage

Fate = Literal["accept", "release", "reject"]

# How long one call may block: the pace at which Ctrl-C is noticed.
_POLL_SECONDS = 0.2
_COMMIT_SECONDS = 20.0


class ShareMember:
    """Every message that `poll` returned must be decided on before the next poll. Those that are not when the member
    closes are delivered to another member."""

    def __init__(self, client: Client, group: str, topic: str, properties: Mapping[str, str]) -> None:
        self._topic = topic
        self._consumer = client.share_consumer(
            {**properties, "group.id": group, "share.acknowledgement.mode": "explicit"}
        )
        self._consumer.subscribe([topic])

    def poll(self, seconds: float = _POLL_SECONDS) -> list[ConsumedMessage]:
        return [
            consumed(message, message.delivery_count())
            for message in polled(self._consumer, self._topic, seconds)
        ]

    def decide(self, message: ConsumedMessage, fate: Fate) -> None:
        """The next poll, or closing the member, sends the acknowledgement."""
        from confluent_kafka import AcknowledgeType

        self._consumer.acknowledge_offset(
            message.topic, message.partition, message.offset, AcknowledgeType[fate.upper()]
        )

    def close(self) -> None:
        from confluent_kafka import KafkaException

        try:
            self._consumer.commit_sync(_COMMIT_SECONDS)
        except KafkaException as failure:
            raise from_kafka(failure.args[0], f"Topic '{self._topic}'") from None
        finally:
            self._consumer.close()


def polled(consumer: Any, topic: str, seconds: float) -> list[Message[Any, Any]]:
    """Messages of one poll of a share consumer; errors become sentences."""
    from confluent_kafka import KafkaException

    try:
        messages = list(consumer.poll(seconds))
    except KafkaException as failure:
        raise from_kafka(failure.args[0], f"Topic '{topic}'") from None
    for message in messages:
        error = message.error()
        if error is not None:
            raise from_kafka(error, f"Topic '{topic}'")
    return messages
