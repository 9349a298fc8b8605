"""A driver for the bare streams group: preset topics, timers in a dict, every record kept and replayed."""

from __future__ import annotations

from typing import Any

from ottla.coordinator.groups.base.base_group import GroupConfig, Pace, StreamsSettings
from ottla.coordinator.groups.base.effects import CancelTimer, Effect, SetTimer, TimerKey
from ottla.coordinator.groups.streams.streams_group import StreamsGroup
from ottla.coordinator.groups.streams.streams_records import apply
from ottla.coordinator.groups.streams.streams_state import (
    StreamsHeartbeatRequest,
    StreamsHeartbeatResult,
    StreamsState,
    Tasks,
)
from ottla.coordinator.groups.streams.topology import InternalTopic, Subtopology, Topology
from ottla.coordinator.runtime import KeyValue
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.coordinator.groups.consumer.consumer_machine import FakeTopics

# A topology that reads `lines`, repartitions and counts them.
WORD_COUNT = Topology(
    0,
    (
        Subtopology("0", ("lines",), repartition_sink_topics=("r",)),
        Subtopology(
            "1", repartition_source_topics=(InternalTopic("r"),), changelog_topics=(InternalTopic("c"),)
        ),
    ),
)


class StreamsMachine:
    """Drives one group. `log` holds the records that a coordinator would write."""

    def __init__(
        self, topics: FakeTopics | None = None, topology: Topology = WORD_COUNT, **settings: int
    ) -> None:
        self.topics = topics or FakeTopics(lines=2, r=2, c=2)
        self.topology = topology
        self.pace = Pace(assignment_interval_ms=0)
        self.settings = StreamsSettings(**{"initial_rebalance_delay_ms": 0, **settings})
        self.config = GroupConfig(
            pace_of=lambda group_type, group_id: self.pace,
            streams_settings_of=lambda group_id: self.settings,
            streams_max_size=5,
        )
        self.now = 1_000_000
        self.group = StreamsGroup("g", self.config, self.topics)
        self.timers: dict[TimerKey, int] = {}
        self.log: list[KeyValue] = []

    def heartbeat(self, member_id: str, epoch: int, **fields: Any) -> StreamsHeartbeatResult:
        request = StreamsHeartbeatRequest(member_id, epoch, client_id="c", client_host="/h", **fields)
        result, records, effects = self.group.streams_heartbeat(request, self.now)
        self.store(records, effects)
        return result

    def join(self, member_id: str, **fields: Any) -> StreamsHeartbeatResult:
        usual = {
            "rebalance_timeout_ms": 30_000,
            "owned": Tasks(),
            "topology": self.topology,
            "process_id": f"p-{member_id}",
            "client_tags": (),
        }
        return self.heartbeat(member_id, 0, **{**usual, **fields})

    def error(self, member_id: str, epoch: int, **fields: Any) -> ErrorCode:
        before = self.group.state_now.copy()
        try:
            self.heartbeat(member_id, epoch, **fields)
        except KafkaError as error:
            assert self.group.state_now == before, "a refused request changes nothing"
            return error.code
        return ErrorCode.NONE

    def fire(self, key: TimerKey) -> None:
        self.store(*self.group.on_timer(key, self.now))

    def store(self, records: list[KeyValue], effects: list[Effect]) -> None:
        self.log += records
        self.group.stored()
        for effect in effects:
            if isinstance(effect, SetTimer):
                self.timers[effect.key] = effect.delay_ms
            elif isinstance(effect, CancelTimer):
                self.timers.pop(effect.key, None)
        assert self.replayed() == self.group.state_now

    def replayed(self) -> StreamsState:
        state = StreamsState()
        for key, value in self.log:
            apply(state, int.from_bytes(key[:2], "big"), key, value)
        return state

    def fail_over(self) -> None:
        """Load the group from the log in another coordinator."""
        self.group = StreamsGroup("g", self.config, self.topics)
        self.group.load(self.replayed())


def active(**partitions: list[int]) -> Tasks:
    """Return tasks: `active(_0=[0, 1])` means 0_0 and 0_1."""
    return Tasks({name[1:]: frozenset(found) for name, found in partitions.items()})
