"""Shared code of the test database servers: a folder, a port, a process that tests may kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any, ClassVar, Self

from tests.ports import ports_in_a_row


class DatabaseServer(ABC):
    """A server on a free port of the loopback interface."""

    user: ClassVar[str]
    password: ClassVar[str]
    #: The signal that kills it.
    kill_signal: ClassVar[signal.Signals] = signal.SIGKILL

    def __init__(self, product: str) -> None:
        self.port = ports_in_a_row(1)
        self.folder = Path(tempfile.mkdtemp(prefix=f"ottla-{product}-"))
        self._process: subprocess.Popen[bytes] | None = None

    @abstractmethod
    def create(self) -> None:
        """Create the files of a new server."""

    @abstractmethod
    def command(self) -> list[Any]: ...

    @abstractmethod
    def answers(self) -> bool: ...

    def account(self) -> dict[str, Any]:
        """Return the `subprocess` arguments for the server's user account."""
        return {}

    def prepare(self) -> None:  # noqa: B027
        """Run once after the first start; most servers need nothing."""

    def __enter__(self) -> Self:
        self.create()
        self.start()
        self.prepare()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        log_file = self.folder / "log"
        with log_file.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, cwd=self.folder, **self.account()
            )
        deadline = time.monotonic() + 60
        while not self.answers():
            assert time.monotonic() < deadline, log_file.read_text()
            assert self._process.poll() is None, log_file.read_text()
            time.sleep(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(self.kill_signal)
            self._process.wait(30)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()


class Database(ABC):
    """A separate database, so that tests do not interfere."""

    #: Part of the JDBC URL.
    product: ClassVar[str]

    def __init__(self, server: Any) -> None:
        self.server = server
        self.name = f"db_{uuid.uuid4().hex[:12]}"
        self.administer(f"CREATE DATABASE {self.name}")

    @abstractmethod
    def administer(self, *statements: str) -> None:
        """Run a statement outside of this database."""

    @abstractmethod
    def connect(self, *, autocommit: bool = True) -> Any: ...

    @abstractmethod
    def drop(self) -> None: ...

    @property
    def url(self) -> str:
        return f"jdbc:{self.product}://127.0.0.1:{self.server.port}/{self.name}"

    @property
    def jdbc(self) -> dict[str, str]:
        return {
            "connection.url": self.url,
            "connection.user": self.server.user,
            "connection.password": self.server.password,
            "connection.backoff.ms": "100",
        }

    @property
    def capture(self) -> dict[str, str]:
        """Return settings for Debezium's connectors."""
        return {
            "database.hostname": "127.0.0.1",
            "database.port": str(self.server.port),
            "database.user": self.server.user,
            "database.password": self.server.password,
            "topic.prefix": "bank",
        }

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run each statement in its own transaction, and return the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall()) if cursor.description else []
        return rows
