"""`zookeeper-security-migration`: add ACLs to the existing nodes of a cluster, or remove them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.zookeeper import security_of, zookeeper_client

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from ottla.zookeeper.node_acls import NodeAcls

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
    from ottla.zookeeper.node_acls import ROOTS, TOP, open_to_all, owned_by_creator

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
