"""`kafka-configs --zookeeper` for SCRAM credentials: written into ZooKeeper itself, as Kafka 3.9's tool does it.

Brokers that log in to each other with SCRAM need their user before the first of them is started.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool
from ottla.cli.kafka.servers.zookeeper import security_of, zookeeper_client
from ottla.cli.kafka.settings import credentials

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from ottla.zookeeper import NodeAcls

_USERS, _CHANGES = "/config/users", "/config/changes"
_MAX_ATTEMPTS = 10


def is_meant(kind: str, name: str | None, names: Collection[str]) -> bool:
    return kind == "users" and bool(name) and bool(names) and {*names} <= {*credentials.MECHANISMS}


def alter(
    connect: str, tls_config: Path | None, user: str, added: Mapping[str, str], deleted: Collection[str]
) -> None:
    from ottla.security.sasl.scram import format_credential, new_credential
    from ottla.zookeeper import open_to_all, owned_by_creator

    secrets = {mechanism: credentials.secret_of(mechanism, text) for mechanism, text in added.items()}
    made = {
        mechanism: format_credential(new_credential(mechanism, secret.password, secret.iterations))
        for mechanism, secret in secrets.items()
    }
    # As with Kafka's tool, whoever ZooKeeper knows owns the nodes, as the brokers do with zookeeper.set.acl.
    acls = owned_by_creator if security_of(tls_config).is_known else open_to_all
    servers, slash, chroot = connect.partition("/")
    with zookeeper_client(servers, tls_config=tls_config) as client:
        root = f"/{chroot.rstrip('/')}" if slash and chroot.strip("/") else ""
        _write(client, root, user, made, deleted, acls)
    print(f"Completed updating config for entity: user-principal '{user}'.")


def _write(
    client: KazooClient,
    root: str,
    user: str,
    made: Mapping[str, str],
    deleted: Collection[str],
    acls: NodeAcls,
) -> None:
    from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

    name = quote(user, safe="")
    path = f"{_USERS}/{name}"
    for _ in range(_MAX_ATTEMPTS):
        try:
            data, stat = client.get(root + path)
        except NoNodeError:
            data, stat = b"", None
        node: dict[str, Any] = json.loads(data) if data else {"version": 1, "config": {}}
        absent = [mechanism for mechanism in deleted if mechanism not in node["config"]]
        if absent:
            raise tool.UsageError(f"Invalid config(s): {','.join(absent)}")
        kept = {key: value for key, value in node["config"].items() if key not in deleted}
        node["config"] = {**kept, **made}
        text = json.dumps(node, separators=(",", ":"), ensure_ascii=False).encode()
        try:
            if stat is None:
                for parent in _with_parents(root, _USERS):
                    _ensure(client, root, parent, acls)
                client.create(root + path, text, acls(path))
            else:
                client.set(root + path, text, stat.version)
        except (BadVersionError, NodeExistsError, NoNodeError):
            continue  # somebody else was faster
        break
    else:
        raise JobError(f"{path} changes faster than it can be read.")
    for parent in _with_parents(root, _CHANGES):
        _ensure(client, root, parent, acls)
    change = json.dumps({"version": 2, "entity_path": f"users/{name}"}, separators=(",", ":")).encode()
    client.create(f"{root}{_CHANGES}/config_change_", change, acls(_CHANGES), sequence=True)


def _with_parents(root: str, path: str) -> list[str]:
    parts = (root + path).split("/")[1:]
    return ["/" + "/".join(parts[: depth + 1]) for depth in range(len(parts))]


def _ensure(client: KazooClient, root: str, path: str, acls: NodeAcls) -> None:
    from kazoo.exceptions import NodeExistsError

    if client.exists(path) is None:
        try:
            client.create(path, b"", acls(path.removeprefix(root) or "/"))
        except NodeExistsError:
            return
