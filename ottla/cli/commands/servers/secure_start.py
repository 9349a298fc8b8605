"""`ottla start --secure`: what a first start makes, and what every later one uses again."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import click

from ottla.cli.errors import JobError


class Given(NamedTuple):
    """A certificate that was not made here."""

    certificate: Path | None
    key: Path | None
    ca: Path | None


class SecureStart:
    """Ready to start when it has been made. `password` is the admin's, if the admin is new."""

    def __init__(
        self, directory: Path, listen: str, settings: Mapping[str, str], given: Given, brokers: int
    ) -> None:
        from ottla.cli.commands.security.users import make_password
        from ottla.cli.jobs.secured_data import ADMIN, BROKERS, SecuredData, credentials, hosts_of

        data = self.data = SecuredData(directory)
        if given.certificate is not None:
            data.take(given.certificate, given.key, given.ca)
        elif given.key is not None or given.ca is not None:
            raise click.UsageError("--key and --ca belong to a --certificate.")
        else:
            data.prepare(hosts_of([listen], settings.get("advertised.listeners")))
        self.password = ""
        self.users: dict[str, dict[str, str]] = {}
        self._users_file = data.directory / "initial-users.json"
        if not data.has_admin or data.is_new_to(brokers):
            known = data.admin_password()
            self.password = "" if known else make_password()
            self.users[ADMIN] = credentials(known or self.password)
            if brokers:
                password = make_password()
                data.write_brokers(password)
                self.users[BROKERS] = credentials(password)
        self.settings = data.settings(cluster=bool(brokers))

    def write_clients(self, addresses: list[str]) -> None:
        """When the brokers are there, and everything is known."""
        servers = ",".join(map(_reachable, addresses))
        if self.password:
            self.data.write_clients(servers, self.password)
        else:
            self.data.move_clients(servers)
        self._users_file.unlink(missing_ok=True)

    @contextmanager
    def options_of_brokers(self) -> Iterator[list[str]]:
        """How each broker of a cluster is started; secrets are in files, for command lines can be seen by everybody."""
        from ottla.cli.jobs.secured_data import write_for_owner

        options = ["--secured-by", str(self.data.brokers)]
        if not self.users:
            yield options
            return
        write_for_owner(self._users_file, json.dumps(self.users).encode())
        try:
            yield [*options, "--initial-users", str(self._users_file)]
        finally:
            self._users_file.unlink(missing_ok=True)


def read_settings(file: Path) -> dict[str, str]:
    from ottla.cli.kafka.client_properties import read_file

    return read_file(file)


def read_users(file: Path | None) -> dict[str, dict[str, str]]:
    if file is None:
        return {}
    users: dict[str, dict[str, str]] = json.loads(file.read_text())
    return users


def data_of(config_file: Path | None) -> Path | None:
    """The first log directory that a server.properties names."""
    if config_file is None or not config_file.is_file():
        return None  # the broker says what is wrong with it
    from ottla.cli.kafka.client_properties import read_file

    settings = read_file(config_file)
    directories = settings.get("log.dirs") or settings.get("log.dir")
    return Path(directories.split(",")[0].strip()) if directories else None


def refuse_to_open(directory: Path, given: Given, *, unless: bool) -> None:
    """What was closed once is opened only if that is said."""
    if any(given):
        raise click.UsageError("--certificate, --key and --ca belong to --secure.")
    if not unless and (directory / "client.properties").exists():
        raise JobError(
            f"{directory} was made secure with --secure: start it with --secure again, or with --insecure to let "
            "everybody in."
        )


def _reachable(address: str) -> str:
    """An address to connect to: "every interface" is none."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in ("", "0.0.0.0", "[::]", "::") else address
