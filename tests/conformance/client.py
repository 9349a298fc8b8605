"""One interface to every client under test, and the agent processes behind most of them."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any, ClassVar

from .member import Member
from .records import ClientError, Delivery, Record

HERE = Path(__file__).parent
CALL_TIMEOUT = 60.0


class Client(ABC):
    """A client library or tool. The suite calls only operations for which the client has the capability."""

    name: ClassVar[str]
    title: ClassVar[str]
    capabilities: ClassVar[frozenset[str]]
    from_pypi: ClassVar[bool] = True
    # Maximum time for a read to report that no more records arrive.
    patience: ClassVar[float] = 20.0

    def __init__(self, bootstrap: str, directory: Path) -> None:
        self.bootstrap = bootstrap
        self.settings: Mapping[str, str | int] = {}
        self.directory = directory
        self.members: list[Member] = []
        self._log_numbers = count(1)

    @classmethod
    def unavailable(cls) -> str | None:
        """Return the reason why this client cannot run here, if any."""
        return None

    @classmethod
    @abstractmethod
    def version(cls) -> str:
        """Return the client's version, or an empty string if unknown."""

    @abstractmethod
    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[Delivery]: ...

    @abstractmethod
    def consume(
        self,
        topic: str,
        n: int,
        *,
        partitions: Sequence[int] = (0,),
        start: str | int = "earliest",
        reset: str = "none",
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> list[Record]:
        """Read `n` records, or fewer when `timeout` passes first."""

    @abstractmethod
    def member(
        self,
        group: str,
        topic: str,
        *,
        assignor: str | None = None,
        instance: str | None = None,
        session_timeout_ms: int = 30_000,
        limit: int | None = None,
        commit: bool = True,
    ) -> Member:
        """Start a group member that commits the records it reads and exits after `limit` records.

        A topic that begins with ^ is a pattern for the broker to match.
        """

    def log_in(self, bootstrap: str, settings: Mapping[str, str | int]) -> None:
        """Connect there from now on, with these settings by the client's own names."""
        self.bootstrap, self.settings = bootstrap, settings

    def logged(self) -> str:
        """Return the client's log since the login, for clients that report errors only there."""
        return ""

    @abstractmethod
    def produce_twice(self, topic: str, values: tuple[str, str], between: Callable[[], None]) -> Delivery:
        """Produce a record, run `between`, and produce another on the same connection; return its result."""

    @abstractmethod
    def consume_twice(self, topic: str, between: Callable[[], None]) -> list[Record]:
        """Read one record, run `between`, and continue reading on the same connection."""

    def call(self, operation: str, **arguments: Any) -> Any:
        raise NotImplementedError(f"{self.name} has no {operation}")

    def close(self) -> None:
        self.clean_up_members()

    def clean_up_members(self) -> None:
        for member in self.members:
            member.clean_up()
        self.members.clear()

    def new_log(self, what: str) -> Path:
        return self.directory / f"{self.name}-{what}-{next(self._log_numbers)}.log"


class AgentClient(Client):
    """A client driven through an agent process that runs for the whole test session."""

    default_assignor: ClassVar[str] = "range"

    def __init__(self, bootstrap: str, directory: Path) -> None:
        super().__init__(bootstrap, directory)
        self._agent: Agent | None = None
        self._logged_before = 0

    @abstractmethod
    def command(self, mode: str) -> list[str]: ...

    def call(self, operation: str, **arguments: Any) -> Any:
        if self._agent is None or not self._agent.alive:
            if self._agent is not None:
                self._agent.close()
            self._agent = Agent([*self.command("serve"), self.bootstrap], self.new_log("agent"))
            if self.settings:
                self._log_in()
        return self._agent.call(operation, arguments)

    def log_in(self, bootstrap: str, settings: Mapping[str, str | int]) -> None:
        super().log_in(bootstrap, settings)
        if self._agent is not None and self._agent.alive:
            self._log_in()

    def _log_in(self) -> None:
        assert self._agent is not None
        self._agent.call("log_in", {"bootstrap": self.bootstrap, "settings": dict(self.settings)})
        self._logged_before = len(self._agent.log())

    def logged(self) -> str:
        return "" if self._agent is None else self._agent.log()[self._logged_before :]

    def produce_twice(self, topic: str, values: tuple[str, str], between: Callable[[], None]) -> Delivery:
        handle = self.call("open_producer")
        try:
            first, second = values
            delivered = Delivery(**self.call("send", handle=handle, topic=topic, value=first))
            assert delivered.error is None, delivered
            between()
            return Delivery(**self.call("send", handle=handle, topic=topic, value=second))
        finally:
            self.call("close_producer", handle=handle)

    def consume_twice(self, topic: str, between: Callable[[], None]) -> list[Record]:
        consumer = self.open(topic)
        try:
            assert len(consumer.poll(1)) == 1
            between()
            return consumer.poll(1)
        finally:
            consumer.close()

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[Delivery]:
        answer = self.call(
            "produce",
            topic=topic,
            records=[record.to_json() for record in records],
            codec=codec,
            acks=acks,
            idempotent=idempotent,
        )
        return [Delivery(**delivery) for delivery in answer]

    def consume(
        self,
        topic: str,
        n: int,
        *,
        partitions: Sequence[int] = (0,),
        start: str | int = "earliest",
        reset: str = "none",
        isolation: str = "read_uncommitted",
        timeout: float | None = None,
    ) -> list[Record]:
        consumer = self.open(topic, partitions=partitions, start=start, reset=reset, isolation=isolation)
        try:
            return consumer.poll(n, timeout)
        finally:
            consumer.close()

    def open(
        self,
        topic: str,
        *,
        partitions: Sequence[int] = (0,),
        start: str | int = "earliest",
        reset: str = "none",
        isolation: str = "read_uncommitted",
        group: str | None = None,
        auto_create: bool = True,
    ) -> AgentConsumer:
        handle = self.call(
            "open",
            topic=topic,
            partitions=list(partitions),
            start=start,
            reset=reset,
            isolation=isolation,
            group=group,
            auto_create=auto_create,
        )
        return AgentConsumer(self, handle, topic)

    def member(
        self,
        group: str,
        topic: str,
        *,
        assignor: str | None = None,
        instance: str | None = None,
        session_timeout_ms: int = 30_000,
        limit: int | None = None,
        commit: bool = True,
    ) -> Member:
        options = {
            "group": group,
            "topic": topic,
            "assignor": assignor or self.default_assignor,
            "instance": instance,
            "session_timeout_ms": session_timeout_ms,
            "heartbeat_interval_ms": 300,
            "limit": limit,
            "commit": commit,
        }
        return self._start_member("member", options)

    def share_member(self, group: str, topic: str, *, accept: bool = True) -> Member:
        """Start a share group member. Without acceptance it keeps the records of its first poll locked."""
        return self._start_member("share-member", {"group": group, "topic": topic, "accept": accept})

    def _start_member(self, mode: str, options: dict[str, Any]) -> Member:
        member = Member(
            [*self.command(mode), self.bootstrap, json.dumps(options)],
            directory=HERE,
            log=self.new_log("member"),
        )
        self.members.append(member)
        return member

    def close(self) -> None:
        super().close()
        if self._agent is not None:
            self._agent.close()


class AgentConsumer:
    """A manually assigned consumer that lives in the agent between calls."""

    def __init__(self, client: AgentClient, handle: int, topic: str) -> None:
        self._client = client
        self._handle = handle
        self._topic = topic

    def poll(self, n: int, timeout: float | None = None) -> list[Record]:
        timeout = self._client.patience if timeout is None else timeout
        answer = self._client.call("poll", handle=self._handle, n=n, timeout=timeout)
        return [Record.from_json(record) for record in answer]

    def position(self, partition: int = 0) -> int:
        position: int = self._client.call(
            "position", handle=self._handle, topic=self._topic, partition=partition
        )
        return position

    def seek(self, offset: int, partition: int = 0) -> None:
        self._client.call("seek", handle=self._handle, topic=self._topic, partition=partition, offset=offset)

    def close(self) -> None:
        self._client.call("close", handle=self._handle)


class Agent:
    """An agent process: one JSON line in, one JSON line out."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        self._log = log
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command, cwd=HERE, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr
            )
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def call(self, operation: str, arguments: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({"op": operation, "args": arguments}).encode() + b"\n")
        self._process.stdin.flush()
        try:
            line = self._answers.get(timeout=CALL_TIMEOUT)
        except queue.Empty:
            self._process.kill()
            raise AssertionError(
                f"{operation} was not answered in {CALL_TIMEOUT} s\n{self._tail()}"
            ) from None
        if not line:
            raise AssertionError(
                f"{operation} ended the client with exit code {self._process.wait()}\n{self._tail()}"
            )
        answer = json.loads(line)
        if "error" in answer:
            raise ClientError(answer["error"]["code"], answer["error"]["message"])
        return answer["result"]

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join()
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._answers.put(line)
        self._answers.put(b"")

    def log(self) -> str:
        return self._log.read_text(errors="replace")

    def _tail(self) -> str:
        return self.log()[-3000:]
