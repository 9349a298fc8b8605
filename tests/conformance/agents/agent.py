"""Shared code of the Python agents: the command loop, the error format, the life of a group member.

An agent is a separate process. A client that aborts (librdkafka does, on unexpected responses) then fails one test
rather than the test run, and a test can kill a group member like any process.

    python -m agents.confluent serve HOST:PORT            commands on stdin, one response line each
    python -m agents.confluent member HOST:PORT '{...}'   joins a group, writes events until stdin closes
    python -m agents.confluent share-member HOST:PORT '{...}'   the same with a share group
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable
from itertools import count
from typing import Any

from records import ClientError

Emit = Callable[..., None]


class Agent:
    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.settings: dict[str, Any] = {}  # login settings, by the client's own names
        self.consumers: dict[int, Any] = {}
        self.producers: dict[int, Any] = {}  # open between commands
        self._handles = count(1)

    def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        return getattr(self, f"do_{operation}")(**arguments)

    def use(self, bootstrap: str, settings: dict[str, Any]) -> None:
        """Connect all later clients there, with these settings."""
        self.bootstrap, self.settings = bootstrap, settings

    def describe_error(self, error: Exception) -> tuple[int | None, str]:
        """Return Kafka's error code (None if the client has none) and a message."""
        return getattr(error, "errno", None), f"{type(error).__name__}: {error}"

    def remember(self, consumer: Any) -> int:
        handle = next(self._handles)
        self.consumers[handle] = consumer
        return handle

    def remember_producer(self, producer: Any) -> int:
        handle = next(self._handles)
        self.producers[handle] = producer
        return handle

    def run_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        raise NotImplementedError

    def run_share_member(self, options: dict[str, Any], emit: Emit, stopping: threading.Event) -> None:
        raise NotImplementedError


class MemberLog:
    """Reports of a group member: each new assignment, and the records read."""

    def __init__(self, emit: Emit, limit: int | None) -> None:
        self._emit = emit
        self._limit = limit
        self._read = 0
        self._assignment: list[list[Any]] | None = None

    def assignment(self, partitions: Any) -> None:
        current = sorted([tp.topic, tp.partition] for tp in partitions)
        if current != self._assignment:
            self._assignment = current
            self._emit("assignment", partitions=current)

    def callback(self, kind: str, partitions: Any) -> None:
        self._emit(kind, partitions=sorted([tp.topic, tp.partition] for tp in partitions))

    def take(self, records: list[Any]) -> list[Any]:
        """Return the records that fit under the limit."""
        if self._limit is not None:
            records = records[: self._limit - self._read]
        self._read += len(records)
        return records

    def records(self, records: list[Any]) -> None:
        if records:
            self._emit("records", records=[record.to_json() for record in records])

    def committed(self, offsets: dict[int, int]) -> None:
        self._emit("committed", offsets=sorted(offsets.items()))

    @property
    def full(self) -> bool:
        return self._limit is not None and self._read >= self._limit


def main(agent_class: type[Agent]) -> None:
    mode, bootstrap = sys.argv[1:3]
    agent = agent_class(bootstrap)
    if mode == "serve":
        serve(agent)
    else:
        run = agent.run_share_member if mode == "share-member" else agent.run_member
        be_member(agent, run, json.loads(sys.argv[3]))


def serve(agent: Agent) -> None:
    for line in sys.stdin:
        command = json.loads(line)
        answer: dict[str, Any]
        try:
            if command["op"] == "log_in":
                answer = {"result": agent.use(**command["args"])}
            else:
                answer = {"result": agent.call(command["op"], command["args"])}
        except ClientError as error:
            answer = {"error": {"code": error.code, "message": error.message}}
        except Exception as error:
            code, message = agent.describe_error(error)
            answer = {"error": {"code": code, "message": message}}
        write_line(answer)


def be_member(agent: Agent, run: Callable[..., None], options: dict[str, Any]) -> None:
    stopping = threading.Event()

    def watch_stdin() -> None:
        sys.stdin.read()
        stopping.set()

    # A daemon thread: a member that reached its limit exits while stdin is still open.
    threading.Thread(target=watch_stdin, daemon=True).start()

    def emit(event: str, **details: Any) -> None:
        write_line({"event": event, "at": time.time(), **details})

    try:
        run(options, emit, stopping)
    except Exception as error:
        code, message = agent.describe_error(error)
        emit("failed", code=code, message=message)
        raise
    emit("stopped")


def write_line(data: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(data) + "\n")
    sys.stdout.flush()
