"""A real MariaDB, started by the tests, which may kill it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest

from tests.connect.connectors.database_servers import Database, DatabaseServer

PASSWORD = "tajné"


class MariaDbServer(DatabaseServer):
    """`root` has no password; `ottla` has `PASSWORD`."""

    user = "ottla"
    password = PASSWORD

    def __init__(self, **settings: str) -> None:
        daemon = shutil.which("mariadbd", path="/usr/sbin:/usr/bin:/usr/local/sbin:/usr/local/bin")
        if daemon is None or shutil.which("mariadb-install-db") is None:
            pytest.skip("MariaDB is not installed here (Debian's package mariadb-server).")
        super().__init__("mariadb")
        self._daemon = daemon
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

    def create(self) -> None:
        command = ["mariadb-install-db", "--no-defaults", f"--datadir={self.folder / 'data'}"]
        command += ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"]
        subprocess.run([*command, "--user=root"], check=True, stdout=subprocess.DEVNULL, cwd=self.folder)

    def command(self) -> list[Any]:
        return [
            self._daemon,
            "--no-defaults",
            "--user=root",
            f"--datadir={self.folder / 'data'}",
            f"--socket={self.folder / 'socket'}",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            *(f"--{name}={value}" for name, value in self._settings.items()),
        ]

    def prepare(self) -> None:
        with self.connect(None) as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE USER '{self.user}'@'%' IDENTIFIED BY '{PASSWORD}'")
            cursor.execute(f"GRANT ALL ON *.* TO '{self.user}'@'%'")

    def answers(self) -> bool:
        import pymysql

        try:
            self.connect(None).close()
        except pymysql.MySQLError:
            return False
        return True

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


class MariaDbDatabase(Database):
    product = "mariadb"
    server: MariaDbServer

    def administer(self, *statements: str) -> None:
        with self.server.connect(None) as connection, connection.cursor() as cursor:
            for statement in statements:
                cursor.execute(statement)

    @property
    def capture(self) -> dict[str, str]:
        return {**super().capture, "database.include.list": self.name}

    def connect(self, *, autocommit: bool = True) -> Any:
        return self.server.connect(self.name, autocommit=autocommit)

    def drop(self) -> None:
        self.administer(f"DROP DATABASE IF EXISTS {self.name}")


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
