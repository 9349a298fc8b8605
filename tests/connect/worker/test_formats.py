"""Promise: stored records and messages between workers match those of a running Kafka 4.3 worker, byte for byte."""

from __future__ import annotations

import json

import pytest

from ottla.connect.worker import config_state, status_state
from ottla.connect.worker.config_state import ConfigState, RestartRequest, TargetState
from ottla.connect.worker.distributed import group_protocol
from ottla.connect.worker.distributed.group_protocol import Assignment, WorkerState
from ottla.connect.worker.java_maps import NotAJavaMap, decode_map, encode_map
from ottla.connect.worker.status_state import Status, StatusState, TopicUse

# The join metadata of Kafka's worker, with four connectors, two of them without tasks.
KAFKAS_METADATA = (
    b"\x00\x02\x00\x17http://127.0.0.1:18083/\x00\x00\x00\x00\x00\x00\x00\x1f\x00\x00\x00\xa6"
    b"\x00\x02\x00\x00\x00<connect-127.0.0.1:18083-d818106f-d71e-456c-b085-955c7fe7673d"
    b"\x00\x17http://127.0.0.1:18083/\x00\x00\x00\x00\x00\x00\x00\x1f\x00\x00\x00\x04"
    b"\x00\x01p\x00\x00\x00\x01\xff\xff\xff\xff\x00\x02st\x00\x00\x00\x01\xff\xff\xff\xff"
    b"\x00\x03a/b\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00"
    b"\x00\x01n\x00\x00\x00\x02\xff\xff\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
)


def test_metadata_of_a_worker() -> None:
    tasks = {"p": [-1], "st": [-1], "a/b": [-1, 0], "n": [-1, 0]}
    state = WorkerState("http://127.0.0.1:18083/", 31, tasks, is_ours=False)
    assert group_protocol.decode_metadata(KAFKAS_METADATA) == state
    # Ours differs in the leader's id, which nothing reads here, and in its marker, which Kafka's worker skips.
    leader = b"connect-127.0.0.1:18083-d818106f-d71e-456c-b085-955c7fe7673d"
    ours = group_protocol.encode_metadata(state, 2).removesuffix(b"ottla")
    assert len(ours) == len(KAFKAS_METADATA) - len(leader)
    assert ours[-100:] == KAFKAS_METADATA[-100:]
    none = WorkerState("http://a:1/", 5)
    assert group_protocol.decode_metadata(group_protocol.encode_metadata(none, 2)) == none
    assert group_protocol.decode_metadata(group_protocol.encode_metadata(none, 0)) == none


def test_assignments() -> None:
    given = Assignment("m", "http://a:1/", 7, {"c": [-1, 0, 1]}, {"d": [-1]}, 300)
    assert group_protocol.decode_assignment(group_protocol.encode_assignment(given, 2)) == given
    for broken in (KAFKAS_METADATA[:-9], b"", b"\x00"):
        with pytest.raises(ValueError, match="end too early"):
            group_protocol.decode_metadata(broken)


def test_records_of_the_config_topic() -> None:
    config = {"connector.class": "FileStreamSource", "name": "f"}
    assert config_state.connector_entry("f", config) == (
        b"connector-f",
        b'{"properties":{"connector.class":"FileStreamSource","name":"f"}}',
    )
    assert config_state.task_entries("a/b", [config])[0][0] == b"task-a/b-0"
    assert config_state.task_entries("f", [])[-1] == (b"commit-f", b'{"tasks":0}')
    assert config_state.target_entry("f", TargetState.STOPPED) == (
        b"target-state-f",
        b'{"state":"PAUSED","state.v2":"STOPPED"}',
    )
    assert config_state.target_entry("f", None) == (b"target-state-f", None)
    assert config_state.restart_entry(RestartRequest("f", True, False)) == (
        b"restart-connector-f",
        b'{"include-tasks":true,"only-failed":false}',
    )


def test_tasks_count_only_when_all_of_them_are_there() -> None:
    state = ConfigState()
    entries = [config_state.connector_entry("a-1", {"x": "y"}), *config_state.task_entries("a-1", [{}, {}])]
    for offset, entry in enumerate(entries[:-1]):
        state.apply(*entry, offset)
    assert state.tasks("a-1") == []
    state.apply(*entries[-1], 3)
    assert state.tasks("a-1") == [{}, {}]
    state.apply(b"task-a-1-0", b'{"properties":{"half":"written"}}', 4)
    state.apply(b"commit-a-1", b'{"tasks":2}', 5)
    assert state.tasks("a-1") == []


def test_what_cannot_be_read_in_the_config_topic_is_passed_over() -> None:
    state = ConfigState()
    for offset, (key, value) in enumerate(
        [(b"connector-x", b"{"), (b"\xff", b"1"), (b"target-state-x", b'{"state":"HAPPY"}'), (b"else", b"1")]
    ):
        assert not state.apply(key, value, offset).connectors
    assert state.connectors == {}
    assert state.offset == 4


def test_a_worker_of_before_knows_no_second_state() -> None:
    state = ConfigState()
    state.apply(b"target-state-x", b'{"state":"PAUSED"}', 0)
    assert state.target("x") is TargetState.PAUSED


def test_records_of_the_status_topic() -> None:
    state = StatusState()
    status = Status("RUNNING", "127.0.0.1:18083", 3, None, "4.3.0")
    value = status_state.encoded(status.to_json())
    assert value == (
        b'{"state":"RUNNING","trace":null,"worker_id":"127.0.0.1:18083","generation":3,"version":"4.3.0"}'
    )
    state.apply(status_state.connector_key("f"), value)
    state.apply(status_state.task_key("a-b", 0), value)
    state.apply(b"status-topic-t:connector-f", status_state.topic_value(TopicUse("t", "f", 0, 1)))
    assert state.connectors == {"f": status}
    assert state.tasks == {"a-b": {0: status}}
    assert state.topics_of("f") == ["t"]
    state.apply(status_state.connector_key("f"), None)
    assert state.connectors == {}


def test_a_worker_that_was_replaced_does_not_overwrite_its_successor() -> None:
    state = StatusState()
    newer = Status("RUNNING", "b:1", 9)
    assert not state.may_replace(newer, Status("UNASSIGNED", "a:1", 8))
    assert state.may_replace(newer, Status("UNASSIGNED", "b:1", 8))
    assert state.may_replace(newer, Status("FAILED", "a:1", 9))


def test_the_offsets_file_of_a_standalone_worker() -> None:
    entries = {json.dumps(["f", {"n": number}]).encode(): b'{"position":1}' for number in range(40)}
    with_null = {**entries, b"k": None}
    assert decode_map(encode_map(with_null)) == with_null
    assert decode_map(encode_map({})) == {}
    for broken in (b"", b"\xac\xed\x00\x05", encode_map(entries)[:-100], b"hello"):
        with pytest.raises(NotAJavaMap):
            decode_map(broken)
