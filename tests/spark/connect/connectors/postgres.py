"""A real PostgreSQL, started for the tests, which they may kill."""

from __future__ import annotations

import os
import pwd
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

PASSWORD = "přísně tajné"


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres: Debian keeps them off the PATH."""
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


class PostgresServer:
    """Listens on a free port of the loopback interface. `user` is a superuser, with `PASSWORD`."""

    user = "postgres"

    def __init__(self, **settings: str) -> None:
        programs = postgres_programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed here (Debian's package postgresql).")
        self._programs = programs
        self.port = ports_in_a_row(1)
        self._folder = Path(tempfile.mkdtemp(prefix="ottla-postgres-"))
        self._account = self._unprivileged()
        self._process: subprocess.Popen[bytes] | None = None
        self._settings = {
            "wal_level": "logical",
            "fsync": "off",
            "max_replication_slots": "60",
            "max_wal_senders": "60",
            "max_connections": "100",
            "shared_buffers": "32MB",
            "unix_socket_directories": "",
            "listen_addresses": "127.0.0.1",
            "log_min_messages": "warning",
            **settings,
        }

    def _unprivileged(self) -> dict[str, Any]:
        """PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        for name in ("postgres", "nobody"):
            try:
                account = pwd.getpwnam(name)
            except KeyError:
                continue
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        pytest.skip("PostgreSQL cannot run as root, and there is no user postgres or nobody.")

    def __enter__(self) -> Self:
        secret = self._folder / "password"
        secret.write_text(PASSWORD + "\n")
        secret.chmod(0o644)
        command = [
            self._programs / "initdb",
            "-D",
            self._folder / "data",
            "-U",
            self.user,
            "-A",
            "scram-sha-256",
        ]
        command += ["--pwfile", secret, "-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self._folder, **self._account)
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        shutil.rmtree(self._folder, ignore_errors=True)

    def start(self) -> None:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        with open(self._folder / "log", "ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._folder / "data", "-p", str(self.port), *options],
                stdout=log,
                stderr=log,
                cwd=self._folder,
                **self._account,
            )
        deadline = time.monotonic() + 30
        while not self._answers():
            assert time.monotonic() < deadline, (self._folder / "log").read_text()
            assert self._process.poll() is None, (self._folder / "log").read_text()
            time.sleep(0.02)

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(**self.login("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def kill(self) -> None:
        """As a power cut does to the processes: the next start recovers from the log."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(30)
            self._process = None

    def restart(self) -> None:
        self.kill()
        self.start()

    def login(self, database: str) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "password": PASSWORD,
            "dbname": database,
        }


class PostgresDatabase:
    """A database of its own, so that tests do not meet."""

    def __init__(self, server: PostgresServer) -> None:
        import psycopg

        self.server = server
        self.name = f"db_{uuid.uuid4().hex[:12]}"
        with psycopg.connect(**server.login("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {self.name}")

    @property
    def url(self) -> str:
        return f"jdbc:postgresql://127.0.0.1:{self.server.port}/{self.name}"

    @property
    def jdbc(self) -> dict[str, str]:
        return {
            "connection.url": self.url,
            "connection.user": self.server.user,
            "connection.password": PASSWORD,
            "connection.backoff.ms": "100",
        }

    def connect(self, *, autocommit: bool = True) -> Any:
        import psycopg

        return psycopg.connect(**self.server.login(self.name), autocommit=autocommit)

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        """Runs each in a transaction of its own, and returns the rows of the last."""
        rows: list[tuple[Any, ...]] = []
        with self.connect() as connection:
            for statement in statements:
                cursor = connection.execute(statement)
                rows = cursor.fetchall() if cursor.description else []
        return rows

    def drop(self) -> None:
        import psycopg

        with psycopg.connect(**self.server.login("postgres"), autocommit=True) as connection:
            connection.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
                "WHERE database = %s AND NOT active",
                [self.name],
            )
            connection.execute(f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    pytest.importorskip("psycopg")
    with PostgresServer() as server:
        yield server


@pytest.fixture
def postgres(postgres_server: PostgresServer) -> Iterator[PostgresDatabase]:
    database = PostgresDatabase(postgres_server)
    yield database
    database.drop()
