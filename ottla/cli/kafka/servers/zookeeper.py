"""ZooKeeper as the tools see it: a short-lived client, and where the brokers of a cluster are."""

from __future__ import annotations

import contextlib
import json
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.properties import parse_properties

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from ottla.zookeeper.security import ZooKeeperSecurity

_SECONDS = 5.0


@contextlib.contextmanager
def zookeeper_client(
    connect: str, seconds: float = _SECONDS, tls_config: Path | None = None
) -> Iterator[KazooClient]:
    """Lists of servers may be separated by semicolons and have blanks in them.

    `tls_config` is a file with `zookeeper.ssl.…` settings. The login comes from the JAAS file in KAFKA_OPTS.
    """
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    from ottla.zookeeper.client import ZooKeeperClient
    from ottla.zookeeper.client import logger as client_logger

    for each in (logging.getLogger("kazoo"), client_logger):
        each.setLevel(logging.CRITICAL)
    security = security_of(tls_config)
    servers = connect.replace(";", ",").replace(" ", "")
    try:
        client = ZooKeeperClient(servers, security=security, timeout=seconds)
    except ValueError:
        raise JobError(
            f"'{connect}' is not the address of a ZooKeeper: write HOST:PORT[,…][/CHROOT], for example localhost:2181."
        ) from None
    try:
        with warnings.catch_warnings(
            action="ignore"
        ):  # a chroot that is not there, which the caller finds out
            client.start(timeout=seconds)
        if not client.wait_for_login(seconds):
            raise KazooTimeoutError
        yield client
    except KazooTimeoutError:
        reason = client.trouble or "is it running, and is the address right?"
        raise JobError(f"ZooKeeper at {connect} cannot be reached: {reason}") from None
    except KazooException as error:
        raise JobError(f"ZooKeeper at {connect} refused: {type(error).__name__}.") from None
    finally:
        client.stop()
        client.close()


def security_of(tls_config: Path | None) -> ZooKeeperSecurity:
    from ottla.zookeeper.security import BadSecurity, zookeeper_security

    settings = {} if tls_config is None else parse_properties(tool.read_text(tls_config))
    try:
        return zookeeper_security(settings)
    except BadSecurity as error:
        raise JobError(str(error)) from None


def brokers_of(connect: str, tls_config: Path | None = None) -> str:
    from kazoo.exceptions import NoNodeError

    with zookeeper_client(connect, tls_config=tls_config) as client:
        try:
            ids = client.get_children("/brokers/ids")
        except NoNodeError:
            ids = []
        found = []
        for broker in sorted(ids):
            with contextlib.suppress(NoNodeError, ValueError):
                found += _addresses(json.loads(client.get(f"/brokers/ids/{broker}")[0]))
    if not found:
        raise JobError(f"No broker is registered with ZooKeeper at {connect}: start one, or name its chroot.")
    return ",".join(found)


def _addresses(registration: dict[str, object]) -> list[str]:
    endpoints = registration.get("endpoints")
    if isinstance(endpoints, list):
        plain = [str(each) for each in endpoints if str(each).startswith("PLAINTEXT://")]
        return [each.partition("://")[2] for each in plain or map(str, endpoints)]
    return [f"{registration['host']}:{registration['port']}"]
