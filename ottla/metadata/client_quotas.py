"""Client quotas in the metadata store: entities, keys, and Kafka's nodes under /config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote

from ottla.metadata import nodes
from ottla.metadata.configs.config_defs import format_value
from ottla.metadata.stores.store import Node, NodeStore, children_if_any

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"

WHOLE_KEYS = frozenset({PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, CONNECTION_CREATION_RATE})
CLIENT_KEYS = frozenset(
    {PRODUCER_BYTE_RATE, CONSUMER_BYTE_RATE, REQUEST_PERCENTAGE, CONTROLLER_MUTATION_RATE}
)
IP_KEYS = frozenset({CONNECTION_CREATION_RATE})

# Pairs of type and name, ordered by type. The name None is the default of that type.
Entity = tuple[tuple[str, str | None], ...]
Quotas = Mapping[str, float]


def entity(names: Mapping[str, str | None]) -> Entity:
    return tuple(sorted(names.items()))


class QuotaChange(NamedTuple):
    key: str
    value: float | None  # None removes the quota


# Nodes


def _to_name(name: str | None) -> str:
    return nodes.DEFAULT_ENTITY if name is None else safe_name(name)


def safe_name(name: str) -> str:
    """Escape a name for ZooKeeper, as Kafka does."""
    return quote(name, safe="-_.~").replace("~", "%7E")


def _from_name(text: str) -> str | None:
    return None if text == nodes.DEFAULT_ENTITY else unquote(text)


def entity_path(of: Entity) -> str:
    names = dict(of)
    if IP in names:
        return f"{nodes.CONFIG_IPS}/{_to_name(names[IP])}"
    if USER not in names:
        return f"{nodes.CONFIG_CLIENTS}/{_to_name(names[CLIENT_ID])}"
    path = f"{nodes.CONFIG_USERS}/{_to_name(names[USER])}"
    return f"{path}/clients/{_to_name(names[CLIENT_ID])}" if CLIENT_ID in names else path


def decode_quotas(node: Node | None) -> dict[str, float]:
    """Return the quotas in a node. User nodes also contain other settings."""
    found = {}
    for key, text in nodes.decode_config(node.data if node else b"").items():
        if key in CLIENT_KEYS or key in IP_KEYS:
            try:
                found[key] = float(text)
            except ValueError:
                raise nodes.BadNode(f"The quota {key} is not a number: {text!r}") from None
    return found


async def load_client_quotas(store: NodeStore) -> dict[Entity, dict[str, float]]:
    entities: list[Entity] = [
        entity({IP: _from_name(n)}) for n in await children_if_any(store, nodes.CONFIG_IPS)
    ]
    entities += [
        entity({CLIENT_ID: _from_name(n)}) for n in await children_if_any(store, nodes.CONFIG_CLIENTS)
    ]
    for user in await children_if_any(store, nodes.CONFIG_USERS):
        entities.append(entity({USER: _from_name(user)}))
        for client in await children_if_any(store, f"{nodes.CONFIG_USERS}/{user}/clients"):
            entities.append(entity({USER: _from_name(user), CLIENT_ID: _from_name(client)}))
    found = await store.get_many([entity_path(each) for each in entities])
    return {
        each: quotas for each, node in zip(entities, found, strict=True) if (quotas := decode_quotas(node))
    }


def replace_quotas(node: Node, quotas: Quotas) -> bytes:
    before = nodes.decode_config(node.data)
    kept = {key: value for key, value in before.items() if key not in CLIENT_KEYS and key not in IP_KEYS}
    return nodes.encode_config({**kept, **{k: _text(k, v) for k, v in quotas.items()}})


def _text(key: str, value: float) -> str:
    return str(int(value)) if key in WHOLE_KEYS else str(format_value(float(value)))
