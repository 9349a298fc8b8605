"""kcat, Debian's command-line client: one process per produce, read or query."""

from __future__ import annotations

import json
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import IO, Any

from ottla.protocol.errors import ErrorCode

from .capabilities import CODECS, assignors, codecs, logins
from .client import Client
from .member import Member
from .records import ClientError, Delivery, Record

RUN_TIMEOUT = 40.0

# A line with the numbers, then key, value and headers, then a byte that never occurs in our headers.
FORMAT = r"%p %o %T %K %S\n%k%s%h\x1e\n"
END = b"\x1e\n"

KEY_END, RECORD_END = "\x1c\x1d", "\x1d\x1c"

ERRORS = {
    "Message size too large": ErrorCode.MESSAGE_TOO_LARGE,
    "Offset out of range": ErrorCode.OFFSET_OUT_OF_RANGE,
    "Unknown topic or partition": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    "Broker failed to validate record": ErrorCode.INVALID_RECORD,
    "Invalid timestamp": ErrorCode.INVALID_TIMESTAMP,
    "Topic authorization failed": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
}
SETTINGS = ("-X", "fetch.wait.max.ms=100", "-X", "topic.metadata.refresh.fast.interval.ms=50")


class KcatClient(Client):
    name = "kcat"
    title = "kcat"
    from_pypi = False
    capabilities = (
        codecs(*CODECS)
        | assignors("range", "roundrobin", "cooperative-sticky")
        | {"keys", "headers", "null headers", "null values", "partitioner", "idempotence", "acks"}
        | {"reset", "reset errors", "groups", "static members", "newer errors"}
        # Debian's librdkafka lacks OIDC, and a command line has no token callback.
        | logins("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI")
        | {"offsets_for_time", "list_topics", "describe_topic", "tail"}
    )

    @classmethod
    def unavailable(cls) -> str | None:
        return None if shutil.which("kcat") else "kcat is not installed (apt install kcat)"

    @classmethod
    def version(cls) -> str:
        if cls.unavailable() is not None:
            return ""
        about = subprocess.run(["kcat", "-V"], capture_output=True, text=True, timeout=RUN_TIMEOUT).stdout
        found = re.search(r"Version (\S+)", about)
        return found[1] if found else ""

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
    ) -> list[Delivery]:
        settings = {
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "message.max.bytes": "8000000",
            "message.timeout.ms": "20000",
        }
        options = ["-P", "-t", topic, "-z", codec]
        for key, value in settings.items():
            options += ["-X", f"{key}={value}"]
        # Partition and headers are process options, and one process cannot mix null and empty values. Group the records
        # by partition, so that a process gets many records; the order within a partition stays.
        deliveries: list[Delivery] = []
        for (partition, headers, *_), batch in groupby(sorted(records, key=partition_of), key=kind_of):
            deliveries += self._produce(options, partition, headers, list(batch))
        return deliveries

    def _produce(
        self,
        options: list[str],
        partition: int | None,
        headers: tuple[tuple[str, bytes | None], ...],
        records: list[Record],
    ) -> list[Delivery]:
        assert all(record.timestamp is None for record in records)
        arguments = [*options, "-D", RECORD_END]
        if partition is not None:
            arguments += ["-p", str(partition)]
        for name, value in headers:
            arguments += ["-H", name if value is None else f"{name}={value.decode()}"]
        if records[0].key is not None:
            arguments += ["-K", KEY_END]
        if records[0].value is None:
            arguments.append("-Z")
        lines = (
            (b"" if record.key is None else record.key + KEY_END.encode()) + (record.value or b"")
            for record in records
        )
        done = self._run(arguments, input=RECORD_END.encode().join(lines))
        failed = done.stderr.decode(errors="replace") if done.returncode else ""
        return [Delivery(partition, None, code_in(failed) if failed else None, failed) for _ in records]

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
        offset = {"earliest": "beginning", "latest": "end"}.get(str(start), str(start))
        arguments = ["-C", "-t", topic, "-o", offset, "-c", str(n), "-e", "-f", FORMAT]
        if len(partitions) == 1:
            arguments += ["-p", str(partitions[0])]
        arguments += ["-X", f"isolation.level={isolation}"]
        arguments += ["-X", f"topic.auto.offset.reset={'error' if reset == 'none' else reset}"]
        return list(records_in(self._ask(arguments)))

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
        settings = {
            "auto.offset.reset": "earliest",
            "partition.assignment.strategy": assignor or "range",
            "session.timeout.ms": str(session_timeout_ms),
            "heartbeat.interval.ms": "300",
            "enable.auto.commit": str(commit).lower(),
            "auto.commit.interval.ms": "100",
        }
        if instance is not None:
            settings["group.instance.id"] = instance
        command = [*self._command(), "-u", "-f", FORMAT]
        for key, value in settings.items():
            command += ["-X", f"{key}={value}"]
        if limit is not None:
            command += ["-c", str(limit)]
        member = KcatMember([*command, "-G", group, topic], directory=Path(), log=self.new_log("member"))
        self.members.append(member)
        return member

    def call(self, operation: str, **arguments: Any) -> Any:
        return getattr(self, f"_{operation}")(**arguments)

    def _offsets_for_time(self, topic: str, partition: int, timestamp: int) -> int | None:
        answer = self._ask(["-Q", "-t", f"{topic}:{partition}:{timestamp}"])
        offset = int(answer.split()[-1])
        return offset if offset >= 0 else None

    def _list_topics(self) -> list[str]:
        return [topic["topic"] for topic in json.loads(self._ask(["-L", "-J"]))["topics"]]

    def _describe_topic(self, name: str) -> dict[str, Any]:
        [topic] = json.loads(self._ask(["-L", "-J", "-t", name]))["topics"]
        return {
            "partitions": [
                {
                    "partition": partition["partition"],
                    "leader": partition["leader"],
                    "replicas": [replica["id"] for replica in partition["replicas"]],
                    "isr": [replica["id"] for replica in partition["isrs"]],
                }
                for partition in topic["partitions"]
            ]
        }

    def _ask(self, arguments: Sequence[str]) -> bytes:
        done = self._run(arguments)
        if done.returncode:
            message = done.stderr.decode(errors="replace")
            raise ClientError(code_in(message), message)
        return done.stdout

    def _run(self, arguments: Sequence[str], input: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [*self._command(), *arguments]
        return subprocess.run(command, input=input, capture_output=True, timeout=RUN_TIMEOUT)

    def _command(self) -> list[str]:
        settings = [word for name, value in self.settings.items() for word in ("-X", f"{name}={value}")]
        return ["kcat", "-b", self.bootstrap, *SETTINGS, *settings]

    def produce_twice(self, topic: str, values: tuple[str, str], between: Callable[[], None]) -> Delivery:
        first, second = values
        options = ["-P", "-t", topic, "-p", "0", "-X", "message.timeout.ms=20000", "-X", "linger.ms=0"]
        with self._started(options) as running:
            assert running.stdin is not None
            # kcat reads 1 KB of its input at a time, and skips empty lines.
            running.stdin.write(f"{first}\n".encode() + b"\n" * 1024)
            running.stdin.flush()
            between()
            _, message = running.communicate(f"{second}\n".encode(), timeout=RUN_TIMEOUT)
        failed = message.decode(errors="replace") if running.returncode else ""
        return Delivery(0, None, code_in(failed) if failed else None, failed)

    def consume_twice(self, topic: str, between: Callable[[], None]) -> list[Record]:
        options = ["-C", "-u", "-t", topic, "-p", "0", "-o", "beginning", "-f", FORMAT]
        with self._started(options) as running:
            assert running.stdout is not None
            next(records_from(running.stdout))
            between()
            rest, message = running.communicate(timeout=RUN_TIMEOUT)
        if running.returncode:
            failed = message.decode(errors="replace")
            raise ClientError(code_in(failed), failed)
        return list(records_in(rest))

    @contextmanager
    def _started(self, arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
        """Run a process for the duration of the block."""
        pipe = subprocess.PIPE
        with subprocess.Popen(
            [*self._command(), *arguments], stdin=pipe, stdout=pipe, stderr=pipe
        ) as running:
            try:
                yield running
            finally:
                running.kill()


class KcatMember(Member):
    """Reads records from stdout and rebalances from stderr."""

    # "rebalanced (…): assigned: …", or "rebalanced: incremental assignment of 2 partition(s) (…): …"
    REBALANCE = re.compile(
        r"% Group \S+ rebalanced(?:: incremental (assign|revoke)\w* of \d+ partition\(s\))? \(.*?\): "
        r"(?:(assign|revoke)\w*: )?(.*)$"
    )

    def _read(self) -> None:
        rebalances = threading.Thread(target=self._follow_log, daemon=True)
        rebalances.start()
        assert self._process.stdout is not None
        for record in records_from(self._process.stdout):
            with self._changed:
                self.records.append(record)
                self._changed.notify_all()
        rebalances.join()

    def _follow_log(self) -> None:
        with self._log.open("r", errors="replace") as log:
            line = ""
            while True:
                ended = self._process.poll() is not None
                line += log.readline()
                if line.endswith("\n"):
                    self._take_line(line)
                    line = ""
                elif ended:
                    return
                else:
                    with self._changed:
                        self._changed.wait(0.05)

    def _take_line(self, line: str) -> None:
        found = self.REBALANCE.match(line)
        if found is None:
            return
        partitions = {int(partition) for partition in re.findall(r"\[(\d+)\]", found[3])}
        with self._changed:
            if "assign" in (found[1], found[2]):
                self.assignment |= partitions
                self.rebalances += 1
            else:
                self.assignment -= partitions
            self._changed.notify_all()

    def _ask_to_stop(self) -> None:
        self._process.send_signal(signal.SIGINT)


def partition_of(record: Record) -> int:
    return -1 if record.partition is None else record.partition


def kind_of(record: Record) -> tuple[Any, ...]:
    """Return the key for grouping records into one kcat process."""
    return record.partition, record.headers, record.key is None, record.value is None


def records_in(output: bytes) -> Iterator[Record]:
    return records_from(BytesIO(output))


def records_from(stream: IO[bytes]) -> Iterator[Record]:
    """Parse records in FORMAT, dropping an incomplete last one."""
    while line := stream.readline():
        if not line.endswith(b"\n"):
            return
        partition, offset, timestamp, key_size, value_size = map(int, line.split())
        key = None if key_size < 0 else stream.read(key_size)
        value = None if value_size < 0 else stream.read(value_size)
        rest = stream.readline()
        if not rest.endswith(END):
            return
        headers = tuple(header_in(header) for header in rest.removesuffix(END).decode().split(",") if header)
        yield Record(value, key, headers, partition, timestamp, offset)


def header_in(text: str) -> tuple[str, bytes | None]:
    name, _, value = text.partition("=")
    return name, None if value == "NULL" else value.encode()


def code_in(message: str) -> int | None:
    return next((int(code) for text, code in ERRORS.items() if text in message), None)
