"""Fetch sessions (KIP-227): the broker remembers a client's partitions, so that requests name only changes."""

from __future__ import annotations

import random
from collections.abc import Generator
from dataclasses import dataclass
from typing import Generic, TypeVar

from ottla.broker.network.split import Split
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
)

TOPIC_IDS = 13  # first version that names topics by id
_LAST_EPOCH = 2**31 - 1
_SPLIT = Split("topics.partitions", "responses.partitions")
_SPLIT_FORGOTTEN = Split("forgotten_topics_data.partitions", "responses.partitions")

Key = tuple[str | bytes, int]


class FetchTarget:
    """One partition of a fetch, and its state in the last response."""

    __slots__ = (
        "current_leader_epoch",
        "fetch_offset",
        "index",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "sent_high_watermark",
        "sent_log_start_offset",
        "topic",
        "topic_id",
    )

    def __init__(self, topic: str, topic_id: bytes, partition: FetchPartition) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = partition.partition
        self.sent_high_watermark = -1
        self.sent_log_start_offset = -1
        self.update(partition)

    def update(self, partition: FetchPartition) -> None:
        self.fetch_offset = partition.fetch_offset
        self.max_bytes = partition.partition_max_bytes
        self.current_leader_epoch = partition.current_leader_epoch
        self.last_fetched_epoch = partition.last_fetched_epoch
        self.log_start_offset = partition.log_start_offset

    def has_news(self, answer: PartitionData) -> bool:
        """Return True if an incremental response must include this partition, and remember the answer."""
        news = bool(
            answer.records
            or answer.error_code
            or answer.high_watermark != self.sent_high_watermark
            or answer.log_start_offset != self.sent_log_start_offset
            or answer.preferred_read_replica != -1
            or answer.diverging_epoch is not None
        )
        # After an error the next successful answer is always included.
        self.sent_high_watermark = -1 if answer.error_code else answer.high_watermark
        self.sent_log_start_offset = answer.log_start_offset
        return news


class FetchSession:
    """Partitions of one session, in serving order, and the epoch of its next request."""

    __slots__ = ("by_id", "epoch", "id", "last_used_ms", "targets")

    def __init__(self, session_id: int, by_id: bool, now_ms: int = 0) -> None:
        self.id = session_id
        self.by_id = by_id
        self.last_used_ms = now_ms
        self.epoch = 1
        self.targets: dict[Key, FetchTarget] = {}

    def update(self, topics: list[FetchTopic]) -> None:
        for topic in topics:
            name: str | bytes = topic.topic_id if self.by_id else topic.topic
            for partition in topic.partitions:
                target = self.targets.get((name, partition.partition))
                if target is None:
                    self.targets[name, partition.partition] = self.new_target(topic, partition)
                else:
                    target.update(partition)

    def new_target(self, topic: FetchTopic, partition: FetchPartition) -> FetchTarget:
        return FetchTarget(topic.topic, topic.topic_id, partition)

    def forget(self, forgotten: list[ForgottenTopic]) -> None:
        for topic in forgotten:
            name = topic.topic_id if self.by_id else topic.topic
            for index in topic.partitions:
                self.targets.pop((name, index), None)

    def advance(self) -> None:
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def served(self, targets: list[FetchTarget]) -> None:
        """Move partitions that returned data to the end, so that a small response size starves none."""
        for target in targets:
            key: Key = (target.topic_id if self.by_id else target.topic, target.index)
            if self.targets.get(key) is target:
                self.targets[key] = self.targets.pop(key)


@dataclass(slots=True, eq=False)
class FetchPlan:
    """Partitions of one fetch request, and its session."""

    targets: list[FetchTarget]
    session: FetchSession | None
    incremental: bool


SessionT = TypeVar("SessionT", bound=FetchSession)


class SessionCache(Generic[SessionT]):
    """Sessions by id. Owner: the event loop."""

    def __init__(self) -> None:
        self._sessions: dict[int, SessionT] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def _new_id(self) -> int:
        while (session_id := random.randint(1, 2**31 - 1)) in self._sessions:
            pass
        return session_id

    def _find(self, request: FetchRequest, by_id: bool) -> SessionT:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise KafkaError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        return session


class FetchSessions(SessionCache[FetchSession]):
    """Sessions of consumers, at most `slots`."""

    def __init__(self, slots: int, eviction_ms: int = 120_000) -> None:
        super().__init__()
        self._slots = slots
        self._eviction_ms = eviction_ms

    def plan(
        self, request: FetchRequest, version: int, now_ms: int, full: FetchSession | None = None
    ) -> FetchPlan:
        """Return the partitions to read. For a full request `full` may already hold them."""
        by_id = version >= TOPIC_IDS
        if request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH):
            if request.session_id:
                self._sessions.pop(request.session_id, None)
            if full is None:
                full = FetchSession(0, by_id)
                full.update(request.topics)
            is_kept = request.session_epoch == INITIAL_EPOCH and full.targets and self._open(full, now_ms)
            return FetchPlan(list(full.targets.values()), full if is_kept else None, incremental=False)
        session = self._find(request, by_id)
        session.update(request.topics)
        session.forget(request.forgotten_topics_data)
        session.last_used_ms = now_ms
        session.advance()
        if not session.targets:
            del self._sessions[session.id]
            return FetchPlan([], None, incremental=False)
        # Least recently used first, for eviction.
        self._sessions[session.id] = self._sessions.pop(session.id)
        return FetchPlan(list(session.targets.values()), session, incremental=True)

    def plan_in_slices(
        self, request: FetchRequest, version: int, now_ms: int
    ) -> Generator[None, None, FetchPlan]:
        """Like `plan` for a request with many partitions. Most of them join the session before the plan is complete."""
        by_id = version >= TOPIC_IDS
        is_full = request.session_epoch in (FINAL_EPOCH, INITIAL_EPOCH)
        session = FetchSession(0, by_id) if is_full else self._find(request, by_id)
        for part, _ in _SPLIT.parts(request):
            assert isinstance(part, FetchRequest)
            session.update(part.topics)
            yield
        for part, _ in _SPLIT_FORGOTTEN.parts(request):
            assert isinstance(part, FetchRequest)
            session.forget(part.forgotten_topics_data)
            yield
        rest = FetchRequest(session_id=request.session_id, session_epoch=request.session_epoch)
        return self.plan(rest, version, now_ms, session if is_full else None)

    def close(self, session: FetchSession) -> None:
        """Close a session before the client learns its id."""
        self._sessions.pop(session.id, None)

    def _open(self, session: FetchSession, now_ms: int) -> bool:
        if len(self._sessions) >= self._slots and not self._evict(now_ms):
            return False
        session.id = self._new_id()
        session.last_used_ms = now_ms
        self._sessions[session.id] = session
        return True

    def _evict(self, now_ms: int) -> bool:
        """Evict the longest idle session if idle long enough. Return True if there is room."""
        oldest = next(iter(self._sessions.values()), None)
        if oldest is None or now_ms - oldest.last_used_ms < self._eviction_ms:
            return False
        del self._sessions[oldest.id]
        return True
