"""Paths and payloads of nodes in ZooKeeper, and the rules for topic names."""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple
from urllib.parse import quote, unquote

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.internal_topics import (
    GROUP_METADATA_TOPIC,
    INTERNAL_TOPICS,
    SHARE_GROUP_STATE_TOPIC,
    TRANSACTION_STATE_TOPIC,
)

# Legal topic names, name collisions, and internal topics.

__all__ = [
    "GROUP_METADATA_TOPIC",
    "INTERNAL_TOPICS",
    "MAX_NAME_LENGTH",
    "SHARE_GROUP_STATE_TOPIC",
    "TRANSACTION_STATE_TOPIC",
    "collision_key",
    "validate_topic_name",
]

MAX_NAME_LENGTH = 249

_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def validate_topic_name(name: str) -> None:
    """Raises KafkaError(INVALID_TOPIC_EXCEPTION) with Kafka's message."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif not _LEGAL.fullmatch(name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def collision_key(name: str) -> str:
    return name.replace(".", "_")


# Kafka's ZooKeeper nodes: their paths, and their exact JSON.
#
# Fields added to a topic or partition state by newer versions are kept in `extra` and written back, so that a cluster
# shared with Apache Kafka loses no data.

BROKER_IDS = "/brokers/ids"
BROKER_SEQUENCE = "/brokers/seqid"
TOPICS = "/brokers/topics"
CONTROLLER = "/controller"
CONTROLLER_EPOCH = "/controller_epoch"
CLUSTER_ID = "/cluster/id"
FEATURE = "/feature"
MIGRATION = "/migration"  # written by Kafka's controllers during a migration to KRaft
DELETE_TOPICS = "/admin/delete_topics"
REASSIGN_PARTITIONS = "/admin/reassign_partitions"
PREFERRED_REPLICA_ELECTION = "/admin/preferred_replica_election"
CONFIG_TOPICS = "/config/topics"
CONFIG_BROKERS = "/config/brokers"
CONFIG_GROUPS = "/config/groups"
CONFIG_CLIENT_METRICS = "/config/client-metrics"
CONFIG_CHANGES = "/config/changes"
ISR_CHANGE_NOTIFICATION = "/isr_change_notification"
LOG_DIR_EVENT_NOTIFICATION = "/log_dir_event_notification"
LATEST_PRODUCER_ID_BLOCK = "/latest_producer_id_block"
CONFIG_CLIENTS = "/config/clients"
CONFIG_USERS = "/config/users"
CONFIG_IPS = "/config/ips"
DELEGATION_TOKENS = "/delegation_token/tokens"
DELEGATION_TOKEN_CHANGES = "/delegation_token/token_changes"
DEFAULT_ENTITY = "<default>"

# Nodes that a broker creates first, as in Kafka.
PERSISTENT_PATHS = (
    "/consumers",
    BROKER_IDS,
    TOPICS,
    CONFIG_CHANGES,
    DELETE_TOPICS,
    BROKER_SEQUENCE,
    ISR_CHANGE_NOTIFICATION,
    LATEST_PRODUCER_ID_BLOCK,
    LOG_DIR_EVENT_NOTIFICATION,
    CONFIG_TOPICS,
    CONFIG_GROUPS,
    CONFIG_CLIENT_METRICS,
    "/config/clients",
    "/config/users",
    CONFIG_BROKERS,
    "/config/ips",
    DELEGATION_TOKENS,
    DELEGATION_TOKEN_CHANGES,
)


def broker_path(broker_id: int) -> str:
    return f"{BROKER_IDS}/{broker_id}"


def topic_path(topic: str) -> str:
    return f"{TOPICS}/{topic}"


def partitions_path(topic: str) -> str:
    return f"{TOPICS}/{topic}/partitions"


def partition_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}"


def partition_state_path(topic: str, partition: int) -> str:
    return f"{TOPICS}/{topic}/partitions/{partition}/state"


def topic_config_path(topic: str) -> str:
    return f"{CONFIG_TOPICS}/{topic}"


def group_config_path(group_id: str) -> str:
    return f"{CONFIG_GROUPS}/{_any_name(group_id)}"


def client_metrics_path(subscription: str) -> str:
    return f"{CONFIG_CLIENT_METRICS}/{_any_name(subscription)}"


def _any_name(name: str) -> str:
    # A group may have any name; a node may not.
    return quote(name, safe="")


def name_of_config(node: str) -> str:
    return unquote(node)


def broker_config_path(broker_id: int | None) -> str:
    """Return the path of one broker's config, or with None of the cluster-wide default."""
    return f"{CONFIG_BROKERS}/{DEFAULT_ENTITY if broker_id is None else broker_id}"


def delete_topic_path(topic: str) -> str:
    return f"{DELETE_TOPICS}/{topic}"


# Topic ids

ZERO_UUID = bytes(16)
_UUID = re.compile("[A-Za-z0-9_-]{22}")
_RESERVED_UUIDS = (ZERO_UUID, bytes(15) + b"\x01")


def encode_uuid(uuid: bytes) -> str:
    """Encode as in Kafka: URL-safe base64 without padding."""
    if len(uuid) != 16:
        raise ValueError(f"A topic id has 16 bytes, not {len(uuid)}")
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def decode_uuid(text: str) -> bytes:
    if not _UUID.fullmatch(text):
        raise ValueError(f"{text!r} is not an id of 22 characters")
    return base64.urlsafe_b64decode(text + "==")


def random_uuid() -> bytes:
    """Return a version 4 UUID as Kafka does: never a reserved one, nor one whose text looks like an option."""
    while True:
        random = bytearray(os.urandom(16))
        random[6] = random[6] & 0x0F | 0x40
        random[8] = random[8] & 0x3F | 0x80
        uuid = bytes(random)
        if uuid not in _RESERVED_UUIDS and not encode_uuid(uuid).startswith("-"):
            return uuid


# Payloads


class BadNode(ValueError):
    """A node with invalid JSON for its path. The message names the node and the reason."""


def _to_json(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, separators=(",", ":"), ensure_ascii=False).encode()


def _from_json(what: str, data: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(data)
    except ValueError as error:
        raise BadNode(f"The node of {what} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise BadNode(f"The node of {what} is not a JSON object")
    return fields


def _wrong(what: str, error: Exception) -> BadNode:
    detail = f"lacks {error}" if isinstance(error, KeyError) else f"has a field it should not have: {error}"
    return BadNode(f"The node of {what} {detail}")


_NOTHING: Mapping[Any, Any] = MappingProxyType({})


class Endpoint(NamedTuple):
    listener: str
    security_protocol: str
    host: str
    port: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.listener}://{host}:{self.port}"


class BrokerRegistration(NamedTuple):
    broker_id: int
    endpoints: tuple[Endpoint, ...]
    rack: str | None = None
    timestamp_ms: int = 0
    jmx_port: int = -1
    features: Mapping[str, Any] = _NOTHING


def encode_broker(broker: BrokerRegistration) -> bytes:
    plaintext = next((e for e in broker.endpoints if e.security_protocol == "PLAINTEXT"), None)
    fields: dict[str, Any] = {
        "features": dict(broker.features),
        "listener_security_protocol_map": {e.listener: e.security_protocol for e in broker.endpoints},
        "endpoints": [str(endpoint) for endpoint in broker.endpoints],
    }
    if broker.rack is not None:
        fields["rack"] = broker.rack
    fields |= {
        "jmx_port": broker.jmx_port,
        # Fields for clients of the first versions.
        "port": plaintext.port if plaintext else -1,
        "host": plaintext.host if plaintext else None,
        "version": 5,
        "timestamp": str(broker.timestamp_ms),
    }
    return _to_json(fields)


def decode_broker(broker_id: int, data: bytes) -> BrokerRegistration:
    what = f"broker {broker_id}"
    fields = _from_json(what, data)
    try:
        if "endpoints" in fields:
            protocols = fields.get("listener_security_protocol_map") or {}
            endpoints = tuple(_endpoint(text, protocols) for text in fields["endpoints"])
        else:
            endpoints = (Endpoint("PLAINTEXT", "PLAINTEXT", fields["host"], int(fields["port"])),)
        return BrokerRegistration(
            broker_id,
            endpoints,
            fields.get("rack"),
            int(fields.get("timestamp", 0)),
            int(fields.get("jmx_port", -1)),
            fields.get("features") or {},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong(what, error) from None


def _endpoint(text: str, protocols: Mapping[str, str]) -> Endpoint:
    listener, _, address = text.partition("://")
    host, _, port = address.rpartition(":")
    return Endpoint(listener, protocols.get(listener, listener), host.strip("[]"), int(port))


class TopicAssignment(NamedTuple):
    """Replicas of each partition; the first one is the preferred leader."""

    partitions: Mapping[int, tuple[int, ...]]
    topic_id: bytes | None
    adding_replicas: Mapping[int, tuple[int, ...]] = _NOTHING
    removing_replicas: Mapping[int, tuple[int, ...]] = _NOTHING
    extra: Mapping[str, Any] = _NOTHING


_TOPIC_FIELDS = frozenset({"partitions", "topic_id", "adding_replicas", "removing_replicas", "version"})


def encode_topic(topic: TopicAssignment) -> bytes:
    fields: dict[str, Any] = {"partitions": _replicas_to_json(topic.partitions)}
    if topic.topic_id is not None:
        fields["topic_id"] = encode_uuid(topic.topic_id)
    fields |= {
        "adding_replicas": _replicas_to_json(topic.adding_replicas),
        "removing_replicas": _replicas_to_json(topic.removing_replicas),
        "version": 3,
        **topic.extra,
    }
    return _to_json(fields)


def decode_topic(name: str, data: bytes) -> TopicAssignment:
    fields = _from_json(f"topic {name}", data)
    try:
        topic_id = fields.get("topic_id")
        return TopicAssignment(
            _replicas_from_json(fields["partitions"]),
            decode_uuid(topic_id) if topic_id is not None else None,
            _replicas_from_json(fields.get("adding_replicas") or {}),
            _replicas_from_json(fields.get("removing_replicas") or {}),
            {key: value for key, value in fields.items() if key not in _TOPIC_FIELDS},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong(f"topic {name}", error) from None


def _replicas_to_json(partitions: Mapping[int, tuple[int, ...]]) -> dict[str, list[int]]:
    return {str(partition): list(partitions[partition]) for partition in sorted(partitions)}


def _replicas_from_json(fields: Mapping[str, list[int]]) -> dict[int, tuple[int, ...]]:
    return {int(partition): tuple(map(int, replicas)) for partition, replicas in fields.items()}


class PartitionState(NamedTuple):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    extra: Mapping[str, Any] = _NOTHING


_STATE_FIELDS = frozenset({"controller_epoch", "leader", "version", "leader_epoch", "isr"})


def encode_partition_state(state: PartitionState) -> bytes:
    return _to_json(
        {
            "controller_epoch": state.controller_epoch,
            "leader": state.leader,
            "version": 1,
            "leader_epoch": state.leader_epoch,
            "isr": list(state.isr),
            **state.extra,
        }
    )


def decode_partition_state(topic: str, partition: int, data: bytes) -> PartitionState:
    what = f"the state of {topic}-{partition}"
    fields = _from_json(what, data)
    try:
        return PartitionState(
            int(fields["leader"]),
            int(fields["leader_epoch"]),
            tuple(map(int, fields["isr"])),
            int(fields["controller_epoch"]),
            {key: value for key, value in fields.items() if key not in _STATE_FIELDS}
            if len(fields) > len(_STATE_FIELDS)
            else {},
        )
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong(what, error) from None


def encode_controller(broker_id: int, timestamp_ms: int) -> bytes:
    return _to_json(
        {"version": 2, "brokerid": broker_id, "timestamp": str(timestamp_ms), "kraftControllerEpoch": -1}
    )


def decode_controller(data: bytes) -> int:
    fields = _from_json("the controller", data)
    try:
        return int(fields["brokerid"])
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong("the controller", error) from None


def encode_controller_epoch(epoch: int) -> bytes:
    return str(epoch).encode()


def decode_controller_epoch(data: bytes) -> int:
    try:
        return int(data)
    except ValueError:
        raise BadNode("The node of the controller epoch is not a number") from None


def encode_log_dir_event(broker_id: int) -> bytes:
    return _to_json({"version": 1, "broker": broker_id, "event": 1})


def encode_cluster_id(cluster_id: str) -> bytes:
    return _to_json({"version": "1", "id": cluster_id})


def decode_cluster_id(data: bytes) -> str:
    fields = _from_json("the cluster id", data)
    if not isinstance(fields.get("id"), str):
        raise BadNode("The node of the cluster id lacks 'id'")
    return str(fields["id"])


def encode_config(configs: Mapping[str, str], extra: Mapping[str, Any] | None = None) -> bytes:
    return _to_json({"version": 1, "config": dict(configs), **(extra or {})})


def decode_config(data: bytes) -> dict[str, str]:
    """Return the config overrides of an entity. An empty node has none."""
    if not data:
        return {}
    fields = _from_json("a config", data)
    configs = fields.get("config") or {}
    if not isinstance(configs, dict):
        raise BadNode("The node of a config has no object 'config'")
    return {str(name): str(value) for name, value in configs.items()}


def encode_config_change(entity_path: str) -> bytes:
    """Encode a node under /config/changes for a path such as topics/t1."""
    return _to_json({"version": 2, "entity_path": entity_path})


class ProducerIdBlock(NamedTuple):
    """Block of producer ids reserved by one broker, including the last one."""

    broker_id: int
    first: int
    last: int


def encode_producer_id_block(block: ProducerIdBlock) -> bytes:
    return _to_json(
        {
            "version": 1,
            "broker": block.broker_id,
            "block_start": str(block.first),
            "block_end": str(block.last),
        }
    )


def decode_producer_id_block(data: bytes) -> ProducerIdBlock | None:
    """Return None for an empty node: no block has been reserved yet."""
    if not data:
        return None
    fields = _from_json("the latest producer id block", data)
    try:
        return ProducerIdBlock(int(fields["broker"]), int(fields["block_start"]), int(fields["block_end"]))
    except (KeyError, TypeError, ValueError) as error:
        raise _wrong("the latest producer id block", error) from None
