"""Write to the schemas topic as a leader that has fenced its predecessors."""

from __future__ import annotations

from ottla.client.log.producer import Fenced, TooLarge
from ottla.client.log.producer import LogProducer as Producer
from ottla.client.settings import Settings
from ottla.registry.model.records import NOOP, Key, Write, encode_key, to_bytes

__all__ = ["Fenced", "LogProducer", "TooLarge"]


class LogProducer:
    """Used by one thread at a time."""

    def __init__(self, settings: Settings, topic: str, transactional_id: str) -> None:
        self._producer = Producer(settings, topic, transactional_id)

    def close(self) -> None:
        self._producer.close()

    def take_over(self, seconds: float) -> int:
        """Fence all earlier leaders. Return the offset of our NOOP: all their records precede it."""
        self._producer.take_over()
        return self.append([Write(Key(NOOP), None)], seconds)

    def append(self, writes: list[Write], seconds: float) -> int:
        """Append all records or none. Return the last offset."""
        return self._producer.append(
            [(encode_key(each.key), None if each.value is None else to_bytes(each.value)) for each in writes],
            seconds,
        )
