"""ZooKeeper as the tools see it: a short-lived client, and `zookeeper-security-migration`."""

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

    from ottla.zookeeper import NodeAcls, ZooKeeperSecurity

# ZooKeeper as the tools see it: a short-lived client, and where the brokers of a cluster are.

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

    from ottla.zookeeper import ZooKeeperClient
    from ottla.zookeeper import logger as client_logger

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
    from ottla.zookeeper import BadSecurity, zookeeper_security

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


# `zookeeper-security-migration`: add ACLs to the existing nodes of a cluster, or remove them.

_SECURE, _UNSECURE = "secure", "unsecure"


@tool.entry_point()
def main(argv: list[str]) -> None:
    parser = tool.Parser(
        "zookeeper-security-migration",
        "Let the nodes in ZooKeeper belong to the brokers, as with zookeeper.set.acl, or to everybody.",
    )
    parser.add_options("""
        --zookeeper.acl ACL!                  secure or unsecure
        --zookeeper.connect HOST:PORT         the ensemble, instead of localhost:2181
        --zookeeper.session.timeout MS        of the session
        --zookeeper.connection.timeout MS     no effect; accepted for compatibility
        --enable.path.check                   change nothing if a node that every cluster has is missing
        --zk-tls-config-file FILE             settings zookeeper.ssl.… to connect over TLS with
        """)  # fmt: skip
    args = vars(parser.parse_args(argv))
    wanted = args["zookeeper.acl"]
    if wanted not in (_SECURE, _UNSECURE):
        raise JobError(f"--zookeeper.acl cannot be '{wanted}'; give {_SECURE} or {_UNSECURE}.")
    file = args["zk_tls_config_file"]
    tls_config = None if file is None else Path(file)
    if not security_of(tls_config).is_known:
        raise JobError(
            "ZooKeeper would not know who you are: name a JAAS file with a section Client in KAFKA_OPTS "
            "(-Djava.security.auth.login.config=FILE), or a key in --zk-tls-config-file."
        )
    milliseconds = args["zookeeper.session.timeout"] or "30000"
    with zookeeper_client(
        args["zookeeper.connect"] or "localhost:2181", int(milliseconds) / 1000, tls_config
    ) as client:
        _migrate(client, wanted == _SECURE, check=args["enable.path.check"])


def _migrate(client: KazooClient, secure: bool, *, check: bool) -> None:
    from ottla.zookeeper import ROOTS, TOP, open_to_all, owned_by_creator

    acls = owned_by_creator if secure else open_to_all
    if check and (missing := [path for path in ROOTS if client.exists(path) is None]):
        raise JobError(f"These nodes are missing, and nothing was changed: {', '.join(missing)}.")
    client.set_acls("/", acls("/"))
    for path in TOP:
        _set(client, path, acls)


def _set(client: KazooClient, path: str, acls: NodeAcls) -> None:
    """The node first: nobody can add to it then while those below it are changed."""
    from kazoo.exceptions import NoNodeError

    try:
        client.set_acls(path, acls(path))
        children = client.get_children(path)
    except NoNodeError:
        return  # it is not there, or not any more
    for child in children:
        _set(client, f"{path}/{child}", acls)
