"""Change client quotas: validate like Kafka, with its messages, and write to the store."""

from __future__ import annotations

import socket
from collections.abc import Iterable, Mapping, Sequence

from ottla.cluster.image.change_notifications import config_notification
from ottla.metadata import client_quotas
from ottla.metadata.client_quotas import CLIENT_KEYS, IP_KEYS, WHOLE_KEYS, Entity, QuotaChange
from ottla.metadata.stores.store import BadVersion, NodeStore, NoNode, Set, StoreError, ensure_paths
from ottla.protocol.errors import ErrorCode, KafkaError

_TYPES = (client_quotas.USER, client_quotas.CLIENT_ID, client_quotas.IP)
_LONG_MAX = 2**63 - 1
_MAX_ATTEMPTS = 10


def check_entity(names: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the request's entity if it is valid."""
    found = dict(names)
    if not found:
        raise _refused("Invalid empty client quota entity")
    for kind, name in found.items():
        if kind not in _TYPES:
            raise _refused(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _refused(f"Empty {kind} not supported")
    if client_quotas.IP in found:
        if len(found) > 1:
            raise _refused(
                "Invalid quota entity combination, IP entity should not be combined with User or ClientId"
            )
        _check_address(found[client_quotas.IP])
    return client_quotas.entity(found)


def _check_address(name: str | None) -> None:
    if name is None:
        return
    try:
        socket.getaddrinfo(name, None, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError):
        # Kafka resolves host names once. Here a name would never match, since connections are known by address.
        raise _refused(f"{name} is not a valid IP address.") from None


def check_changes(entity: Entity, changes: Sequence[QuotaChange]) -> None:
    keys = IP_KEYS if dict(entity).keys() == {client_quotas.IP} else CLIENT_KEYS
    for key, value in changes:
        if value is None:
            continue
        if key not in keys:
            raise _refused(f"Invalid configuration key {key}")
        if not value > 0:
            raise _refused(f"Quota {key} must be greater than 0")
        if key in WHOLE_KEYS:
            if value > _LONG_MAX:
                raise _refused(f"Proposed value for {key} is too large for a LONG.")
            if abs(value - round(value)) > 1e-6:
                raise _refused(f"{key} cannot be a fractional value.")


async def alter_client_quotas(store: NodeStore, entity: Entity, changes: Sequence[QuotaChange]) -> None:
    """Apply checked changes to the stored quotas, and notify all brokers including this one."""
    path = client_quotas.entity_path(entity)
    for _ in range(_MAX_ATTEMPTS):
        await ensure_paths(store, [path])
        node = await store.get(path)
        before = client_quotas.decode_quotas(node)
        after = _changed(before, changes)
        if after == before:
            return
        write = Set(path, client_quotas.replace_quotas(node, after), node.version)
        try:
            await store.multi([write, config_notification(path)])
        except (BadVersion, NoNode) as error:
            if error.path != path:
                raise
            continue  # another broker was faster
        return
    raise StoreError(f"{path} changes faster than it can be read.")


def _changed(quotas: Mapping[str, float], changes: Sequence[QuotaChange]) -> dict[str, float]:
    after = dict(quotas)
    for key, value in changes:
        if value is None:
            after.pop(key, None)
        else:
            after[key] = float(round(value)) if key in WHOLE_KEYS else value
    return after


def _refused(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
