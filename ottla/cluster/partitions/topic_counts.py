"""Read and write counters of clients and followers, by topic."""

from __future__ import annotations

from collections.abc import Iterator


class TopicCounts:
    """Counters of one topic on this broker. Owner: the event loop.

    `messages_in`, `produces` and `bytes_in` cover past leaderships only; `Partition` counts the current one.
    """

    __slots__ = (
        "bytes_in",
        "bytes_out",
        "failed_fetches",
        "failed_produces",
        "fetches",
        "messages_in",
        "produces",
        "replicated_in",
        "replicated_out",
    )

    def __init__(self) -> None:
        self.bytes_in = self.bytes_out = self.messages_in = 0
        self.produces = self.failed_produces = 0  # batches, as Kafka counts "requests"
        self.fetches = self.failed_fetches = 0  # reads of a partition, likewise
        self.replicated_in = self.replicated_out = 0  # bytes

    def add(self, other: TopicCounts) -> None:
        for name in TopicCounts.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


class CountedTopics:
    """Topics with a partition here. Counters of removed topics stay in the total, which must never decrease."""

    def __init__(self) -> None:
        self._topics: dict[str, TopicCounts] = {}
        self._gone = TopicCounts()

    def of(self, topic: str) -> TopicCounts:
        found = self._topics.get(topic)
        if found is None:
            found = self._topics[topic] = TopicCounts()
        return found

    def find(self, topic: str) -> TopicCounts | None:
        return self._topics.get(topic)

    def __iter__(self) -> Iterator[tuple[str, TopicCounts]]:
        return iter(list(self._topics.items()))

    def forget(self, topic: str) -> None:
        counts = self._topics.pop(topic, None)
        if counts is not None:
            self._gone.add(counts)

    def total(self) -> TopicCounts:
        total = TopicCounts()
        total.add(self._gone)
        for counts in self._topics.values():
            total.add(counts)
        return total
