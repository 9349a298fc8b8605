"""Share groups with confluent-kafka."""

from __future__ import annotations

import threading
import time
from typing import Any

from agents.agent import Agent, Emit, MemberLog
from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer
from records import ClientError, Record


class ShareGroups(Agent):
    """The agent's share group commands."""

    def do_share_open(self, group: str, topic: str, explicit: bool) -> int:
        return self.remember(self._share_consumer(group, topic, explicit))

    def do_share_poll(self, handle: int, timeout: float) -> list[dict[str, Any]]:
        deadline = time.monotonic() + timeout
        while (left := deadline - time.monotonic()) > 0:
            if found := polled(self.consumers[handle], min(left, 0.5)):
                return [record.to_json() for record in found]
        return []

    def do_share_acknowledge(self, handle: int, topic: str, fates: list[list[Any]]) -> None:
        consumer = self.consumers[handle]
        for offset, fate in fates:
            consumer.acknowledge_offset(topic, 0, offset, AcknowledgeType[fate.upper()])
        for error in (consumer.commit_sync(20) or {}).values():
            if error is not None:
                raise error

    def do_share_close(self, handle: int) -> None:
        self.consumers.pop(handle).close()

    def run_share_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        """Accept records with the next poll, or poll once and keep the records locked."""
        log = MemberLog(emit, None)
        consumer = self._share_consumer(options["group"], options["topic"], not options["accept"])
        found: list[Record] = []
        while not stopping.is_set() and (options["accept"] or not found):
            found = polled(consumer, 0.1)
            log.records(found)
        stopping.wait()
        consumer.close()

    def _share_consumer(self, group: str, topic: str, explicit: bool) -> ShareConsumer:
        consumer = ShareConsumer(
            {
                "bootstrap.servers": self.bootstrap,
                "log_level": 4,
                "group.id": group,
                "share.acknowledgement.mode": "explicit" if explicit else "implicit",
            }
        )
        consumer.subscribe([topic])
        return consumer


def polled(consumer: ShareConsumer, timeout: float) -> list[Record]:
    messages = list(consumer.poll(timeout))
    for message in messages:
        if message.error() is not None:
            raise KafkaException(message.error())
    return [shared(message) for message in messages]


def shared(message: Message) -> Record:
    if message.delivery_count() is None:
        raise ClientError(None, "a record of a share group came without its delivery count")
    return Record(
        value=message.value(),
        key=message.key(),
        headers=tuple(message.headers() or ()),
        partition=message.partition(),
        timestamp=message.timestamp()[1],
        offset=message.offset(),
        delivery_count=message.delivery_count(),
    )
