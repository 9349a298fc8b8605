"""`ottla start --secure`: the first start creates certificates and an admin, later starts reuse them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.cli.commands.servers.local_cluster import Protection


class Given(NamedTuple):
    """A certificate from the user."""

    certificate: Path | None
    key: Path | None
    ca: Path | None


class SecureStart:
    """Everything for a secured start. `password` is the admin's, if the admin is new."""

    def __init__(
        self,
        directories: Sequence[Path],
        listen: str,
        settings: Mapping[str, str],
        given: Given,
        brokers: int,
    ) -> None:
        from ottla.cli.commands.security.users import make_password
        from ottla.cli.jobs.secured_data import (
            ADMIN,
            BROKERS,
            SecuredData,
            advertised_at,
            close_to_others,
            credentials,
            hosts_of,
        )

        #: Directories that other users could open until now.
        self.closed = [each for each in map(Path.absolute, directories) if close_to_others(each)]
        data = self.data = SecuredData(directories[0])
        self._advertised = "" if brokers else settings.get("advertised.listeners", "")
        self._is_taken = given.certificate is not None
        if given.certificate is not None:
            data.take(given.certificate, given.key, given.ca)
        elif given.key is not None or given.ca is not None:
            raise click.UsageError("--key and --ca belong to a --certificate.")
        else:
            data.prepare(hosts_of([listen, *advertised_at(settings.get("advertised.listeners", ""))]))
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
        self._is_cluster = bool(brokers)

    def log_in_to_registry(self) -> None:
        from ottla.cli.jobs.secured_data import ADMIN, REGISTRY_LOGIN

        password = self.password or self.data.admin_password()
        if not password:
            return
        if self._is_cluster:
            self.data.write_registry_login(f"{ADMIN}:{password}")
        else:
            self.settings[REGISTRY_LOGIN] = f"{ADMIN}:{password}"

    def write_clients(self, addresses: list[str]) -> None:
        from ottla.cli.jobs.secured_data import advertised_at

        servers = ",".join(map(_reachable, advertised_at(self._advertised) or addresses))
        password = self.password or (self.data.admin_password() if self._is_taken else "")
        if password:
            self.data.write_clients(servers, password)
        else:
            self.data.move_clients(servers)
        self._users_file.unlink(missing_ok=True)

    @contextmanager
    def options_of_brokers(self) -> Iterator[list[str]]:
        """Return the options of each broker. Secrets go into files, because every user can see command lines."""
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

    def protect_zookeeper(self) -> Protection:
        """Create keys and a password for this run only, because all parts of the cluster start together."""
        from ottla.cli.commands.security.users import make_password
        from ottla.cli.commands.servers.local_cluster import Protection
        from ottla.cli.jobs.secured_data import BROKERS
        from ottla.jvm.zookeeper import ServerSecurity

        keys, trusted = self.data.make_zookeeper_keys()
        security = ServerSecurity(key_store=keys, users={BROKERS: make_password()})
        return Protection(
            security,
            security.broker_settings(trust_store=trusted),
            security.broker_environment(self.data.directory / "zookeeper-jaas.conf", BROKERS),
        )


def read_settings(file: Path) -> dict[str, str]:
    from ottla.cli.kafka.tool import read_file

    return read_file(file)


def read_users(file: Path | None) -> dict[str, dict[str, str]]:
    if file is None:
        return {}
    users: dict[str, dict[str, str]] = json.loads(file.read_text())
    return users


def settings_of(config_file: Path | None) -> dict[str, str]:
    """Return the settings of a readable server.properties. The broker reports errors in the file."""
    if config_file is None or not config_file.is_file():
        return {}
    from ottla.cli.kafka.tool import read_file

    return read_file(config_file)


def data_of(settings: Mapping[str, str]) -> list[Path]:
    directories = settings.get("log.dirs") or settings.get("log.dir") or ""
    return [Path(each.strip()) for each in directories.split(",") if each.strip()]


def refuse_to_open(directory: Path, given: Given, *, unless: bool) -> None:
    if any(given):
        raise click.UsageError("--certificate, --key and --ca belong to --secure.")
    if not unless and (directory / "client.properties").exists():
        raise JobError(
            f"{directory} was made secure with --secure: start it with --secure again, or with --insecure to let "
            "everybody in."
        )


def _reachable(address: str) -> str:
    """Return an address to connect to, instead of a wildcard such as 0.0.0.0."""
    host, _, port = address.rpartition(":")
    return f"localhost:{port}" if host in ("", "0.0.0.0", "[::]", "::") else address
