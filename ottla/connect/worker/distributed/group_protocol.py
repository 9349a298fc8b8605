"""The group messages of workers, in the format of Kafka's IncrementalCooperativeConnectProtocol. Pure.

Here the unit is a connector with all its tasks, and assignments are complete. Kafka's workers assign single tasks and
send only changes, so workers of both kinds must not share connectors. Our messages end with a mark, which Kafka's
workers ignore. On the wire the connector itself is task -1, as in Kafka.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

PROTOCOL_TYPE = "connect"
#: In order of preference, with the version at the start of the message. Kafka's `eager` is `default` on the wire.
VERSIONS = {"sessioned": 2, "compatible": 1, "default": 0}
_CONNECTOR = -1
_MARK = b"ottla"

#: The tasks of each connector on a worker.
Tasks = Mapping[str, Sequence[int]]


@dataclass(frozen=True)
class Assignment:
    """`connectors` are all connectors that the worker should run, and `revoked` those to stop."""

    leader: str
    leader_url: str
    config_offset: int
    connectors: Tasks = field(default_factory=dict)
    revoked: Tasks = field(default_factory=dict)
    delay_ms: int = 0
    error: int = 0
    #: Whether one of our workers created it.
    is_ours: bool = True


@dataclass(frozen=True)
class WorkerState:
    """The state that a worker reports when it joins."""

    url: str
    config_offset: int
    connectors: Tasks = field(default_factory=dict)
    is_ours: bool = True


def encode_metadata(state: WorkerState, version: int) -> bytes:
    head = struct.pack(">h", version) + _string(state.url) + struct.pack(">q", state.config_offset)
    if version == 0:
        return head + _MARK
    if not state.connectors:
        return head + struct.pack(">i", -1) + _MARK
    assignment = _encoded(
        Assignment("", state.url, state.config_offset, connectors=state.connectors), version
    )
    return head + struct.pack(">i", len(assignment)) + assignment + _MARK


def decode_metadata(data: bytes) -> WorkerState:
    """Raises ValueError for malformed data."""
    reader = _Reader(data)
    version = reader.number(">h")
    url, offset = reader.string(), reader.number(">q")
    connectors: Tasks = {}
    if version > 0:
        size = reader.number(">i")
        if size > 0:
            connectors = _decoded(_Reader(reader.take(size))).connectors
    return WorkerState(url, offset, connectors, reader.rest == _MARK)


def encode_assignment(assignment: Assignment, version: int) -> bytes:
    return _encoded(assignment, version) + _MARK


def decode_assignment(data: bytes) -> Assignment:
    """Raises ValueError for malformed data."""
    reader = _Reader(data)
    return replace(_decoded(reader), is_ours=reader.rest == _MARK)


def _encoded(assignment: Assignment, version: int) -> bytes:
    parts = [
        struct.pack(">hh", version, assignment.error),
        _string(assignment.leader),
        _string(assignment.leader_url),
        struct.pack(">q", assignment.config_offset),
        _tasks(assignment.connectors),
    ]
    if version > 0:
        parts += [_tasks(assignment.revoked), struct.pack(">i", assignment.delay_ms)]
    return b"".join(parts)


def _decoded(reader: _Reader) -> Assignment:
    version, error = reader.number(">h"), reader.number(">h")
    leader, url, offset = reader.string(), reader.string(), reader.number(">q")
    connectors = reader.tasks()
    revoked = reader.tasks() if version > 0 else {}
    delay = reader.number(">i") if version > 0 else 0
    return Assignment(leader, url, offset, connectors, revoked, delay, error)


def with_connector(tasks: int) -> list[int]:
    return [_CONNECTOR, *range(tasks)]


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _tasks(connectors: Tasks) -> bytes:
    parts = [struct.pack(">i", len(connectors))]
    for name, tasks in connectors.items():
        parts.append(_string(name) + struct.pack(f">i{len(tasks)}i", len(tasks), *tasks))
    return b"".join(parts)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> bytes:
        found = self._data[self._at : self._at + size]
        if size < 0 or len(found) < size:
            raise ValueError("The bytes of the Connect protocol end too early.")
        self._at += size
        return found

    @property
    def rest(self) -> bytes:
        return self._data[self._at :]

    def number(self, form: str) -> int:
        [found] = struct.unpack(form, self.take(struct.calcsize(form)))
        return int(found)

    def string(self) -> str:
        return self.take(self.number(">h")).decode()

    def tasks(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for _ in range(max(self.number(">i"), 0)):
            name = self.string()
            found.setdefault(name, []).extend(self.number(">i") for _ in range(max(self.number(">i"), 0)))
        return found
