"""A real MariaDB, started for the tests, which they may kill."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.ports import ports_in_a_row

PASSWORD = "tajné"


class MariaDbServer:
    """Listens on a free port of the loopback interface. `root` has no password there, `ottla` has `PASSWORD`."""

    user = "ottla"

    def __init__(self, **settings: str) -> None:
        daemon = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        if daemon is None or shutil.which("mariadb-install-db") is None:
            pytest.skip("MariaDB is not installed here (Debian's package mariadb-server).")
        self._daemon = daemon
        self.port = ports_in_a_row(1)
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-mariadb-"))
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "server-id": "1",
            "log-bin": "binlog",
            "binlog-format": "ROW",
            "binlog-row-image": "FULL",
            "binlog-row-metadata": "FULL",
            "innodb-flush-log-at-trx-commit": "2",
            "innodb-buffer-pool-size": "32M",
            "innodb-log-file-size": "16M",
            "sync-binlog": "0",
            "character-set-server": "utf8mb4",
            **settings,
        }

    def __enter__(self) -> Self:
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self._folder / 'data'}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        subprocess.run([*command, "--user=root"], check=True, stdout=subprocess.DEVNULL, cwd=self._folder)
        self.start()
        with self.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT ALL ON *.* TO '{self.user}'@'%'")
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        options = [f"--{name}={value}" for name, value in self._settings.items()]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [
                    self._daemon,
                    "--no-defaults",
                    "--user=root",
                    f"--datadir={self._folder / 'data'}",
                    f"--socket={self._folder / 'socket'}",
                    f"--port={self.port}",
                    "--bind-address=127.0.0.1",
                    "--skip-name-resolve",
                    *options,
                ],
                stdout=log,
                stderr=log,
                cwd=self._folder,
            )
        deadline = time.monotonic() + 60
        while not self._answers():
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            assert self._process.poll() is None, (self._folder / "log").read_text()
            time.sleep(0.05)

    def _answers(self) -> bool:
        import pymysql

        try:
            self.connect(None).close()
        except pymysql.MySQLError:
            return False
        return True

    def kill(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait(30)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def connect(self, database: str | None, *, autocommit: bool = True) -> Any:
        import pymysql

        return pymysql.connect(
            host="127.0.0.1",
            port=self.port,
            user="root",
            database=database,
            autocommit=autocommit,
            charset="utf8mb4",
        )


class MariaDbDatabase:
    """A database of its own, so that tests do not meet."""

    def __init__(self, server: MariaDbServer) -> None:
        self.server = server
        self.name = f"db_{uuid.uuid4().hex[:12]}"
        with server.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {self.name}")

    @property
    def url(self) -> str:
        return f"jdbc:mariadb://127.0.0.1:{self.server.port}/{self.name}"

    @property
    def jdbc(self) -> dict[str, str]:
        return {
            "connection.url": self.url,
            "connection.user": self.server.user,
            "connection.password": PASSWORD,
            "connection.backoff.ms": "100",
        }

    def connect(self, *, autocommit: bool = True) -> Any:
        return self.server.connect(self.name, autocommit=autocommit)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)
                rows = list(cursor.fetchall())
        return rows

    def drop(self) -> None:
        with self.server.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"DROP DATABASE IF EXISTS {self.name}")


@pytest.fixture(scope="session")
def mariadb_server() -> Iterator[MariaDbServer]:
    pytest.importorskip("pymysql")
    with MariaDbServer() as server:
        yield server


@pytest.fixture
def mariadb(mariadb_server: MariaDbServer) -> Iterator[MariaDbDatabase]:
    database = MariaDbDatabase(mariadb_server)
    yield database
    database.drop()
