"""A driver for the bare consumer group: preset topics, timers in a dict, every record kept and replayed."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ottla.coordinator.groups.base.base_group import Assignment, GroupConfig, Pace, Topic
from ottla.coordinator.groups.base.effects import CancelTimer, Effect, SetTimer, TimerKey, TimerKind
from ottla.coordinator.groups.consumer.consumer_group import ConsumerGroup
from ottla.coordinator.groups.consumer.consumer_records import apply
from ottla.coordinator.groups.modern.consumer_state import ConsumerState
from ottla.coordinator.groups.modern.subscribing_group import HeartbeatRequest, HeartbeatResult
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError


class FakeTopics:
    def __init__(self, **counts: int) -> None:
        self.version = 0
        self._topics: dict[str, Topic] = {}
        for name, count in counts.items():
            self.set(name, count)

    @staticmethod
    def id_of(name: str) -> bytes:
        return name.encode().ljust(16, b"\0")

    def set(self, name: str, partitions: int) -> None:
        self._topics[name] = Topic(name, self.id_of(name), partitions)
        self.version += 1

    def remove(self, name: str) -> None:
        del self._topics[name]
        self.version += 1

    def names(self) -> Collection[str]:
        return list(self._topics)

    def by_name(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def by_id(self, topic_id: bytes) -> Topic | None:
        return next((t for t in self._topics.values() if t.topic_id == topic_id), None)


class ConsumerMachine:
    """Drives one group. `log` holds the records that a coordinator would write."""

    def __init__(self, topics: FakeTopics | None = None, **config: Any) -> None:
        self.topics = topics or FakeTopics(t=4)
        self.pace = Pace(assignment_interval_ms=0)
        self.config = GroupConfig(pace_of=lambda group_type, group_id: self.pace, **config)
        self.now = 1_000_000
        self.group = ConsumerGroup("g", self.config, self.topics)
        self.timers: dict[TimerKey, int] = {}
        self.log: list[KeyValue] = []

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> HeartbeatResult:
        request = HeartbeatRequest(member_id, epoch, client_id="c", client_host="/h", **fields)
        result, records, effects = self.group.consumer_heartbeat(request, self.now)
        self.store(records, effects)
        return result

    def join(self, member_id: str, *topics: str, **fields: Any) -> HeartbeatResult:
        fields = {"rebalance_timeout_ms": 30_000, "owned": {}, "topics": topics or ("t",), **fields}
        return self.heartbeat(member_id, 0, **fields)

    def error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        before = self.group.state_now.copy()
        try:
            self.heartbeat(member_id, epoch, **fields)
        except KafkaError as error:
            assert self.group.state_now == before, "a refused request changes nothing"
            return error.code
        return ErrorCode.NONE

    def fire(self, kind: TimerKind, member_id: str) -> None:
        self.store(*self.group.on_timer(TimerKey(kind, member_id), self.now))

    def store(self, records: list[KeyValue], effects: list[Effect]) -> None:
        self.log += records
        self.group.stored()
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.delay_ms
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)
        assert self.replayed() == self.group.state_now

    def replayed(self) -> ConsumerState:
        state = ConsumerState()
        for key, value in self.log:
            apply(state, int.from_bytes(key[:2], "big"), key, value)
        return state

    def target(self, member_id: str) -> Assignment:
        return self.group.state_now.targets[member_id]


def partitions(assignment: Assignment | None, topic: str = "t") -> set[int]:
    assert assignment is not None
    return set(assignment.get(FakeTopics.id_of(topic), ()))


def owned(*numbers: int, topic: str = "t") -> Assignment:
    return {FakeTopics.id_of(topic): frozenset(numbers)} if numbers else {}
