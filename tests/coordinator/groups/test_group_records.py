"""The records of `__consumer_offsets`: bytes that Apache Kafka 4.3.0 wrote, and hand-made older versions."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.groups.base.base_group import GroupConfig
from ottla.coordinator.groups.base.committed_offsets import (
    CommittedOffset,
    OffsetKey,
    _read_any_offset_value,
    _read_common_offset_value,
    offset_key,
    offset_value,
    read_offset_value,
)
from ottla.coordinator.groups.base.effects import GroupState, MemberProtocol
from ottla.coordinator.groups.classic.classic_group import ClassicGroup
from ottla.coordinator.groups.classic.group_metadata import (
    GroupKey,
    group_key,
    group_value,
    new_group_value,
    read_group_value,
    read_key,
)
from ottla.coordinator.groups.classic.members import Member
from ottla.coordinator.runtime import java_string_hash, partition_for

TOPIC_ID = bytes.fromhex("fd8df8dc96204008ac81d3536e6bf15a")
OFFSET_KEY = bytes.fromhex("00010004732d61310008636f6f72642d613100000001")
OFFSET_VALUE = bytes.fromhex(
    "00040000000000000005ffffffff01000001a1debc76f7010010fd8df8dc96204008ac81d3536e6bf15a"
)
OFFSET_VALUE_WITH_METADATA = bytes.fromhex(
    "00040000000000000003ffffffff096d6574612dc3a900000001a1debc7631010010fd8df8dc96204008ac81d3536e6bf15a"
)
GROUP_KEY = bytes.fromhex("00020004732d6131")
NEW_GROUP_VALUE = bytes.fromhex("0003000000000000ffffffff000001a1debc768300000000")
EMPTIED_GROUP_VALUE = bytes.fromhex("00030008636f6e73756d657200000002ffffffff000001a1debc763e00000000")
GROUP_VALUE = bytes.fromhex(
    "00030008636f6e73756d657200000001000572616e6765002b696e73742d312d37623062623733342d636163392d3430"
    "65302d616466652d353532633430383565363132000001a1debc768300000001002b696e73742d312d37623062623733"
    "342d636163392d343065302d616466652d3535326334303835653631320006696e73742d310003636c69000a2f313237"
    "2e302e302e3100007530000027100000001e0003000000010008636f6f72642d61310000000000000000ffffffff0000"
    "000000200000000000010008636f6f72642d613100000002000000000000000100000000"
)
ASSIGNMENT = bytes.fromhex("0000000000010008636f6f72642d613100000002000000000000000100000000")


def new_group(group_id: str = "s-a1") -> ClassicGroup:
    return ClassicGroup(group_id, GroupConfig(), lambda: "uuid", 0)


def test_an_offset_is_written_as_kafka_writes_it() -> None:
    assert offset_key("s-a1", "coord-a1", 1) == OFFSET_KEY
    assert offset_value(CommittedOffset(5, -1, "", 1794738255607, topic_id=TOPIC_ID)) == OFFSET_VALUE
    value = offset_value(CommittedOffset(3, -1, "meta-é\0", 1794738255409, topic_id=TOPIC_ID))
    assert value == OFFSET_VALUE_WITH_METADATA


def test_an_offset_that_kafka_wrote_is_read() -> None:
    assert read_key(OFFSET_KEY) == OffsetKey("s-a1", "coord-a1", 1)
    assert read_offset_value(OFFSET_VALUE) == CommittedOffset(5, -1, "", 1794738255607, -1, TOPIC_ID)
    assert read_offset_value(OFFSET_VALUE_WITH_METADATA).metadata == "meta-é\0"


def test_a_group_is_written_as_kafka_writes_it() -> None:
    member_id = "inst-1-7b0bb734-cac9-40e0-adfe-552c4085e612"
    stored = read_group_value(GROUP_VALUE)
    metadata = stored.members[0].metadata("range")
    group = new_group()
    group.protocol_type, group.protocol_name, group.generation_id = "consumer", "range", 1
    group.state, group.state_timestamp = GroupState.COMPLETING_REBALANCE, 1794738255491
    group.members.add(
        Member(member_id, "inst-1", "cli", "/127.0.0.1", 30_000, 10_000, (MemberProtocol("range", metadata),))
    )
    assert group_key("s-a1") == GROUP_KEY
    assert group_value(group, {member_id: ASSIGNMENT}) == GROUP_VALUE
    assert new_group_value(1794738255491) == NEW_GROUP_VALUE


def test_an_emptied_group_is_written_as_kafka_writes_it() -> None:
    group = new_group()
    group.protocol_type, group.generation_id, group.state_timestamp = "consumer", 2, 1794738255422
    assert group_value(group, {}) == EMPTIED_GROUP_VALUE


def test_a_group_that_kafka_wrote_is_read() -> None:
    assert read_key(GROUP_KEY) == GroupKey("s-a1")
    value = read_group_value(GROUP_VALUE)
    assert (value.protocol_type, value.protocol_name, value.generation_id) == ("consumer", "range", 1)
    (member,) = value.members
    assert value.leader == member.member_id
    assert value.state_timestamp == 1794738255491
    assert (member.group_instance_id, member.client_id, member.client_host) == (
        "inst-1",
        "cli",
        "/127.0.0.1",
    )
    assert (member.rebalance_timeout_ms, member.session_timeout_ms) == (30_000, 10_000)
    assert member.assignment == ASSIGNMENT
    new = read_group_value(NEW_GROUP_VALUE)
    assert (new.protocol_type, new.generation_id, new.members) == ("", 0, [])


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("0000 0000000000000007 0001 6d 0000000000000009", CommittedOffset(7, -1, "m", 9)),
        (
            "0001 0000000000000007 0001 6d 0000000000000009 000000000000000a",
            CommittedOffset(7, -1, "m", 9, 10),
        ),
        ("0002 0000000000000007 0001 6d 0000000000000009", CommittedOffset(7, -1, "m", 9)),
        ("0003 0000000000000007 00000002 0001 6d 0000000000000009", CommittedOffset(7, 2, "m", 9)),
        ("0004 0000000000000007 00000002 02 6d 0000000000000009 00", CommittedOffset(7, 2, "m", 9)),
        # A later Kafka may add tagged fields.
        (
            "0004 0000000000000007 00000002 02 6d 0000000000000009 01 05 02 ffff",
            CommittedOffset(7, 2, "m", 9),
        ),
    ],
)
def test_every_version_of_an_offset_is_read(data: str, expected: CommittedOffset) -> None:
    assert read_offset_value(bytes.fromhex(data)) == expected


@pytest.mark.parametrize("version", [0, 1, 2, 3, 4])
def test_every_version_of_a_group_is_read(version: int) -> None:
    def string(text: str | None) -> bytes:
        if version >= 4:
            return b"\x00" if text is None else bytes([len(text) + 1]) + text.encode()
        return b"\xff\xff" if text is None else len(text).to_bytes(2, "big") + text.encode()

    def blob(data: bytes) -> bytes:
        return bytes([len(data) + 1]) + data if version >= 4 else len(data).to_bytes(4, "big") + data

    data = (
        version.to_bytes(2, "big") + string("consumer") + b"\x00\x00\x00\x05" + string("range") + string("m")
    )
    if version >= 2:
        data += (77).to_bytes(8, "big")
    data += b"\x02" if version >= 4 else b"\x00\x00\x00\x01"
    data += string("m") + (string(None) if version >= 3 else b"") + string("cli") + string("/host")
    if version >= 1:
        data += (60_000).to_bytes(4, "big")
    data += (10_000).to_bytes(4, "big") + blob(b"sub") + blob(b"ass")
    data += b"\x00\x00" if version >= 4 else b""
    value = read_group_value(data)
    assert (value.generation_id, value.leader) == (5, "m")
    assert value.state_timestamp == (77 if version >= 2 else -1)
    (member,) = value.members
    assert (member.metadata("range"), member.assignment) == (b"sub", b"ass")
    assert member.rebalance_timeout_ms == (60_000 if version >= 1 else 10_000)


def test_a_commit_with_its_own_expiry_is_written_in_the_version_that_has_it() -> None:
    offset = CommittedOffset(9, 3, "é", 100, 200, TOPIC_ID)
    written = offset_value(offset)
    assert written[:2] == b"\x00\x01"
    assert read_offset_value(written) == CommittedOffset(9, -1, "é", 100, 200)


@given(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-1, 2**31 - 1),
    st.text(max_size=300),
    st.integers(0, 2**62),
    st.sampled_from([bytes(16), TOPIC_ID]),
)
def test_what_is_written_is_read(offset: int, epoch: int, metadata: str, stamp: int, topic_id: bytes) -> None:
    committed = CommittedOffset(offset, epoch, metadata, stamp, -1, topic_id)
    assert read_offset_value(offset_value(committed)) == committed


@given(st.binary(max_size=60))
def test_hostile_bytes_are_a_value_error_at_worst(data: bytes) -> None:
    for read in (read_key, read_offset_value, read_group_value):
        with contextlib.suppress(ValueError):
            read(data)


@given(st.binary(max_size=60))
def test_the_fast_way_to_read_an_offset_is_no_other_way(tail: bytes) -> None:
    data = b"\x00\x04" + tail
    try:
        fast = _read_common_offset_value(data)
    except UnicodeDecodeError:
        fast = None
    if fast is not None:
        assert fast == _read_any_offset_value(data)


def test_keys_of_other_kinds_of_group_are_passed_over() -> None:
    assert read_key(b"\x00\x03\x00\x01g") is None


def test_a_string_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="32767"):
        group_key("g" * 32_768)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", 0), ("a", 97), ("hello", 99162322), ("polygenelubricants", -(2**31)), ("𝄞", 1772394)],
)
def test_the_hash_is_that_of_java(text: str, expected: int) -> None:
    assert java_string_hash(text) == expected


@pytest.mark.parametrize(
    ("group_id", "partition"), [("s-a1", 16), ("g-a1", 24), ("simple-a1", 47), ("polygenelubricants", 0)]
)
def test_a_group_is_kept_where_kafka_keeps_it(group_id: str, partition: int) -> None:
    assert partition_for(group_id, 50) == partition
