"""A real PostgreSQL, started by the tests, which may kill it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.connect.connectors.database_servers import Database, DatabaseServer

PASSWORD = "přísně tajné"


def postgres_programs() -> Path | None:
    """Return the folder of initdb and postgres, which Debian keeps off the PATH."""
    on_path = shutil.which("postgres")
    if on_path:
        return Path(on_path).parent
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    return found[-1].parent if found else None


class PostgresServer(DatabaseServer):
    """`user` is a superuser, with `PASSWORD`."""

    user = "postgres"
    password = PASSWORD
    # Kills the processes like a power cut; the next start recovers from the WAL.
    kill_signal = signal.SIGQUIT

    def __init__(self, **settings: str) -> None:
        programs = postgres_programs()
        if programs is None:
            pytest.skip("PostgreSQL is not installed here (Debian's package postgresql).")
        super().__init__("postgres")
        self._programs = programs
        self._account = self._unprivileged()
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
        """Return an unprivileged account, because PostgreSQL refuses to run as root."""
        if os.geteuid() != 0:
            return {}
        for name in ("postgres", "nobody"):
            try:
                account = pwd.getpwnam(name)
            except KeyError:
                continue
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            return {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        pytest.skip("PostgreSQL cannot run as root, and there is no user postgres or nobody.")

    def account(self) -> dict[str, Any]:
        return self._account

    def create(self) -> None:
        secret = self.folder / "password"
        secret.write_text(PASSWORD + "\n")
        secret.chmod(0o644)
        command = [self._programs / "initdb", "-D", self.folder / "data", "-U", self.user]
        command += ["-A", "scram-sha-256", "--pwfile", secret]
        command += ["-E", "UTF8", "--no-locale", "--no-sync", "--no-instructions"]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.folder, **self._account)

    def command(self) -> list[Any]:
        options = [part for name, value in self._settings.items() for part in ("-c", f"{name}={value}")]
        return [self._programs / "postgres", "-D", self.folder / "data", "-p", str(self.port), *options]

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(**self.login("postgres"), connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def login(self, database: str) -> dict[str, Any]:
        return {
            "host": "127.0.0.1",
            "port": self.port,
            "user": self.user,
            "password": PASSWORD,
            "dbname": database,
        }


class PostgresDatabase(Database):
    product = "postgresql"
    server: PostgresServer

    def administer(self, *statements: str) -> None:
        import psycopg

        with psycopg.connect(**self.server.login("postgres"), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement)

    @property
    def capture(self) -> dict[str, str]:
        return {**super().capture, "database.dbname": self.name, "slot.name": self.name}

    def connect(self, *, autocommit: bool = True) -> Any:
        import psycopg

        return psycopg.connect(**self.server.login(self.name), autocommit=autocommit)

    def drop(self) -> None:
        self.administer(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots "
            f"WHERE database = '{self.name}' AND NOT active",
            f"DROP DATABASE IF EXISTS {self.name} WITH (FORCE)",
        )


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
