"""Streams group records, with bytes that Apache Kafka 4.3.0 wrote while a second instance joined a word count with one
standby replica.
"""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.streams.streams_records import STREAMS_KINDS, apply, difference, tombstones
from ottla.coordinator.groups.streams.streams_state import Endpoint, MemberState, StreamsState, Tasks
from ottla.coordinator.groups.streams.topology import InternalTopic

# Keys of the group "e", and of its members "m1" and "m2".
E, M1, M2 = "000165", "00016500026d31", "00016500026d32"
CONFIGS = "02000400000000011902156e756d2e7374616e6462792e7265706c69636173023100"

WRITTEN = [
    # The first instance joins and gets all tasks.
    ("0013" + M1, "0000000005746573740b2f3132372e302e302e310000ea6000000000037031010368310001000100"),
    (
        "0017" + E,
        "0000000000000302300203696e01010206652d726570010100023101010212652d73746f72652d6368616e67656c6f67000000000000"
        "020f636c65616e75702e706f6c69637908636f6d706163740000010206652d726570000000000000020f636c65616e75702e706f6c69"
        "63790764656c6574650000010000",
    ),
    ("0011" + E, "0000000000024f5300577448977b" + CONFIGS),
    ("0015" + M1, "000003023003000000000000000100023103000000000000000100010100"),
    ("0014" + E, "000000000002010008000001a1e2e04f3b"),
    (
        "0016" + M1,
        "00000000000200000000010302300300000000000000010100090300000002000000020231030000000000000001010009030000000200"
        "000002010101010100",
    ),
    # The second joins and has to wait; it gets a standby of one of its future tasks.
    ("0013" + M2, "0000000005746573740b2f3132372e302e302e310000ea6000000000037032010368320002000100"),
    ("0011" + E, "0000000000034f5300577448977b" + CONFIGS),
    ("0015" + M1, "000003023002000000000002310200000000000202310200000001000100"),
    ("0015" + M2, "000003023002000000010002310200000001000202310200000000000100"),
    ("0014" + E, "000000000003010008000001a1e2e04faf"),
    ("0016" + M2, "0000000000030000000003010202310200000000000101010100"),
    # The first has to give up half.
    (
        "0016" + M1,
        "000000000002000000020203023002000000000100050200000002023102000000000100050200000002010103023002000000010100050"
        "200000002023102000000010100050200000002010100",
    ),
]


def read(*records: tuple[str, str]) -> StreamsState:
    state = StreamsState()
    for key, value in records:
        data = bytes.fromhex(key)
        apply(state, int.from_bytes(data[:2], "big"), data, bytes.fromhex(value))
    return state


@pytest.mark.parametrize(("first", "last"), [(0, 6), (6, 12), (12, 13)])
def test_a_step_is_written_as_kafka_writes_it_byte_for_byte(first: int, last: int) -> None:
    written = difference("e", read(*WRITTEN[:first]), read(*WRITTEN[:last]))
    assert [(key.hex(), value.hex()) for key, value in written if value is not None] == WRITTEN[first:last]


def test_what_kafka_wrote_is_understood() -> None:
    state = read(*WRITTEN)
    assert (state.epoch, state.target_epoch, state.validated_topology_epoch) == (3, 3, 0)
    assert state.assignment_configs == (("num.standby.replicas", "1"),)
    assert state.topology is not None
    counting = state.topology.subtopologies[1]
    assert counting.changelog_topics == (
        InternalTopic("e-store-changelog", 0, 0, (("cleanup.policy", "compact"),)),
    )
    first, second = state.members["m1"], state.members["m2"]
    assert (first.state, second.state) == (MemberState.UNREVOKED_TASKS, MemberState.UNRELEASED_TASKS)
    assert (first.process_id, first.user_endpoint) == ("p1", Endpoint("h1", 1))
    assert first.revoking.active == {"0": {1: 2}, "1": {1: 2}}
    assert second.assigned.ids() == Tasks(standby={"1": frozenset({0})})
    assert state.targets["m2"].active == {"0": {1}, "1": {1}}


def test_tombstones_leave_nothing_of_a_group() -> None:
    state = read(*WRITTEN)
    deleted = tombstones("e", state)
    assert {key for key, _ in deleted} >= {bytes.fromhex(key) for key, _ in WRITTEN}
    for key, value in deleted:
        kind = int.from_bytes(key[:2], "big")
        assert kind in STREAMS_KINDS
        apply(state, kind, key, value)
    assert (state.members, state.targets, state.topology) == ({}, {}, None)


def test_epochs_of_tasks_may_be_missing() -> None:
    """Records written before Kafka 4.3 have no task epochs."""
    without = ("0016" + M1, "0000000000020000000001020230020000000000010101010100")
    state = read(WRITTEN[0], without)
    assert state.members["m1"].assigned.active == {"0": {0: 2}}
