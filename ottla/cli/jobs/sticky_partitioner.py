"""Partitions for records without a key, chosen as Kafka's producer does (KIP-794).

librdkafka changes the partition after a time. A file of some hundred kilobytes is read in less, and would go to one
partition as a whole.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from confluent_kafka import Producer

UNASSIGNED = -1  # librdkafka chooses

_BATCH_SIZE = 16_384  # Kafka's default of batch.size
_OVERHEAD = 8  # bytes of a record beside its key and value; so empty records count, too
_LOOK_AGAIN = 5.0
_LOOK_AGAIN_SOON = 0.1
_LOOKUP_SECONDS = 1.0
# A topic that was just created may be unknown for a moment.
_FIRST_LOOKUP_SECONDS = 2.0


class StickyPartitioner:
    """The same partition for about `batch_size` bytes, then another: each once, in random order, before any again.

    `look` returns the partitions that have a leader, or nothing while they are not known.
    """

    def __init__(self, look: Callable[[], Sequence[int]], batch_size: int = _BATCH_SIZE) -> None:
        self._look = look
        self._batch_size = batch_size
        self._left = 0
        self._partition = UNASSIGNED
        self._available: Sequence[int] = ()
        self._round: list[int] = []
        self._look_at = 0.0

    def choose(self, size: int) -> int:
        """The partition of a record whose key and value have `size` bytes."""
        if self._left <= 0:
            self._switch()
        self._left -= size + _OVERHEAD
        return self._partition

    def look_again(self) -> None:
        """A broker may have failed: the next switch asks for the leaders."""
        self._look_at = 0.0

    def _switch(self) -> None:
        if time.monotonic() >= self._look_at:
            # Keep the last known state while the cluster does not answer.
            available = self._look() or self._available
            self._look_at = time.monotonic() + (_LOOK_AGAIN if available else _LOOK_AGAIN_SOON)
            if available != self._available:
                self._available, self._round = available, []
        if not self._available:
            return
        if not self._round:
            self._round = self._next_round()
        self._partition = self._round.pop()
        self._left = self._batch_size

    def _next_round(self) -> list[int]:
        return random.sample(self._available, len(self._available))


class RoundRobinPartitioner(StickyPartitioner):
    """One partition after another, from a random one on, as Kafka's producer did until 2.3."""

    def __init__(self, look: Callable[[], Sequence[int]]) -> None:
        super().__init__(look, batch_size=0)
        self._first = random.random()

    def _next_round(self) -> list[int]:
        first = int(self._first * len(self._available))
        return [*self._available[first:], *self._available[:first]][::-1]


def partitioner_for(
    producer: Producer, topic: str, properties: Mapping[str, Any], *, round_robin: bool = False
) -> StickyPartitioner | None:
    """For a producer with these properties; None if they name another partitioner."""
    if "partitioner" in properties:
        return None
    lookup = Lookup(producer, topic)
    return (
        RoundRobinPartitioner(lookup) if round_robin else StickyPartitioner(lookup, _batch_size(properties))
    )


def _batch_size(properties: Mapping[str, Any]) -> int:
    try:
        return int(properties.get("batch.size", _BATCH_SIZE))
    except ValueError:
        return _BATCH_SIZE  # librdkafka reports the error


class Lookup:
    """Asks by way of the producer's own connections, which speak every security protocol that it does."""

    def __init__(self, producer: Producer, topic: str) -> None:
        self._producer = producer
        self._topic = topic
        self._first = True

    def __call__(self) -> list[int]:
        deadline = time.monotonic() + (_FIRST_LOOKUP_SECONDS if self._first else 0.0)
        while not (found := self._led()) and time.monotonic() < deadline:
            time.sleep(_LOOK_AGAIN_SOON)
        self._first = False
        return found

    def _led(self) -> list[int]:
        from confluent_kafka import KafkaException

        try:
            topic = self._producer.list_topics(self._topic, timeout=_LOOKUP_SECONDS).topics[self._topic]
        except (KafkaException, KeyError):
            return []
        if topic.error is not None:
            return []
        led = [number for number, partition in topic.partitions.items() if partition.leader >= 0]
        return sorted(led or topic.partitions)
