"""Consumer group records, with bytes that Apache Kafka 4.3.0 wrote while a group was upgraded to the consumer protocol,
reconciled, subscribed with a pattern and left.
"""

from __future__ import annotations

import pytest

from ottla.coordinator.groups.consumer.consumer_records import apply, difference, tombstones
from ottla.coordinator.groups.modern.consumer_state import ConsumerState, MemberState

GROUP = "vgd29154"
G = "00087667643239313534"
CLASSIC = "002c72646b61666b612d36643736623535662d643266342d343961662d613238392d396233353735633437613838"
NEW, STATIC = "00046d6e6577", "00036d7265"
TOPIC = "82efcd01f7df473e92d66b462a5d46de"
SUBSCRIPTION = "000300000001000876746432393135340000000000000000ffffffff0000"

WRITTEN = {
    "a classic member": (
        "0005" + G + CLASSIC,
        "000000000872646b61666b610b2f3132372e302e302e310209767464323931353401000493e000010058010000afc803"
        "0672616e67651f" + SUBSCRIPTION + "000b726f756e64726f62696e1f" + SUBSCRIPTION + "0000",
    ),
    "a member": (
        "0005" + G + NEW,
        "000000000670726f62650b2f3132372e302e302e310209767464323931353401000075300001000100",
    ),
    "a static member with a pattern and an assignor": (
        "0005" + G + STATIC,
        "000005696e73740372310670726f62650b2f3132372e302e302e31010a767464323931352e2a000075300672616e676501000100",
    ),
    "what the pattern matched": (
        "0010" + G + "0009767464323931352e2a",
        "000002097674643239313534000000000000368b000001a1dee782d100",
    ),
    "the group": ("0003" + G, "0000000000020100087cbad3ffd63badc8"),
    "a target": ("0007" + G + NEW, "000002" + TOPIC + "02000000010000"),
    "an empty target": ("0007" + G + CLASSIC, "00000100"),
    "the target's epoch": ("0006" + G, "000000000002010008000001a1dee776f4"),
    "an assignment of two partitions": (
        "0008" + G + CLASSIC,
        "000000000001000000010002" + TOPIC + "0300000000000000010100090300000001000000010100",
    ),
    "an assignment": (
        "0008" + G + NEW,
        "000000000002000000020002" + TOPIC + "020000000101000502000000020100",
    ),
    "a static member that left": ("0008" + G + STATIC, "0000fffffffe0000000202010100"),
}


def read(*records: tuple[str, str]) -> ConsumerState:
    state = ConsumerState()
    for key, value in records:
        data = bytes.fromhex(key)
        apply(state, int.from_bytes(data[:2], "big"), data, bytes.fromhex(value))
    return state


def test_a_group_that_kafka_wrote_is_read_and_written_byte_for_byte() -> None:
    state = read(*WRITTEN.values())
    written = dict(difference(GROUP, ConsumerState(), state))
    assert {key.hex(): value.hex() for key, value in written.items() if value is not None} == dict(
        WRITTEN.values()
    )


def test_what_the_records_say() -> None:
    state = read(*WRITTEN.values())
    topic_id = bytes.fromhex(TOPIC)
    assert (state.epoch, state.target_epoch) == (2, 2)
    assert state.members["mnew"].assigned == {topic_id: {1: 2}}
    assert state.targets["mnew"] == {topic_id: frozenset((1,))}
    static = state.members["mre"]
    assert (static.instance_id, static.rack_id, static.regex, static.server_assignor) == (
        "inst",
        "r1",
        "vtd2915.*",
        "range",
    )
    assert (static.epoch, static.state) == (-2, MemberState.UNRELEASED_PARTITIONS)
    classic = state.members["rdkafka-6d76b55f-d2f4-49af-a289-9b3575c47a88"].classic
    assert classic is not None
    assert classic.session_timeout_ms == 45_000
    assert [name for name, _ in classic.protocols] == ["range", "roundrobin"]


def test_tombstones_leave_nothing() -> None:
    state = read(*WRITTEN.values())
    left = state.copy()
    for key, value in tombstones(GROUP, state):
        assert value is None
        apply(left, int.from_bytes(key[:2], "big"), key, value)
    assert (left.members, left.targets, left.regexes, left.target_epoch) == ({}, {}, {}, 0)


@pytest.mark.parametrize("name", WRITTEN)
def test_records_that_end_early_are_refused(name: str) -> None:
    key, value = WRITTEN[name]
    with pytest.raises(ValueError, match=r"."):
        read((key, value[:-2][:8]))
