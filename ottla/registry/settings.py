"""Settings of a registry, with the names of Confluent's schema-registry.properties."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ottla.client.group_member import GroupTimes
from ottla.client.settings import Settings
from ottla.http.cross_site import names_of
from ottla.registry.model.scopes import LEVELS, MODES, Defaults

DEFAULT_LISTENER = "http://0.0.0.0:8081"
_PREFIX = "kafkastore."
_LISTENER = re.compile(r"(?P<scheme>https?)://(?P<host>\[[^\]]*\]|[^:/]*):(?P<port>\d+)/?")


class BadSettings(ValueError):
    """An invalid setting. The message is one sentence that names it."""


@dataclass(frozen=True)
class Listener:
    scheme: str
    host: str
    port: int


@dataclass(frozen=True)
class RegistrySettings:
    client: Settings
    listeners: tuple[Listener, ...]
    properties: Mapping[str, str]
    defaults: Defaults = field(default_factory=Defaults)
    topic: str = "_schemas"
    replication_factor: int = 3
    group: str = "schema-registry"
    host_name: str = ""
    inter_instance_scheme: str = "http"
    is_eligible: bool = True
    timeout: float = 10.0
    init_timeout: float = 60.0
    group_times: GroupTimes = field(default_factory=GroupTimes)
    max_body: int = 16 << 20
    #: Additional Host header names accepted from clients without a login.
    allowed_hosts: tuple[str, ...] = ()

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> RegistrySettings:
        client = Settings.from_properties(client_properties(properties), client_id="schema-registry")
        if not client.bootstrap:
            raise BadSettings("kafkastore.bootstrap.servers must name at least one broker.")
        listeners = parse_listeners(properties.get("listeners", DEFAULT_LISTENER))
        level = (
            properties.get("schema.compatibility.level")
            or properties.get("avro.compatibility.level")
            or "BACKWARD"
        ).upper()
        if level not in LEVELS:
            raise BadSettings(
                f"schema.compatibility.level cannot be {level}; give one of {', '.join(LEVELS)}."
            )
        mode = properties.get("mode", "READWRITE").upper()
        if mode not in MODES:
            raise BadSettings(f"mode cannot be {mode}; give one of {', '.join(MODES)}.")
        session = _milliseconds(properties, "kafkastore.session.timeout.ms", 10_000)
        return cls(
            client=client,
            listeners=listeners,
            properties=dict(properties),
            defaults=Defaults(level, mode),
            topic=properties.get("kafkastore.topic", "_schemas"),
            replication_factor=_number(properties, "kafkastore.topic.replication.factor", 3),
            group=properties.get("schema.registry.group.id", "schema-registry"),
            host_name=properties.get("host.name", ""),
            inter_instance_scheme=_inter_instance_scheme(properties, listeners),
            is_eligible=_flag(properties, "leader.eligibility", "master.eligibility"),
            timeout=_milliseconds(properties, "kafkastore.timeout.ms", 10_000),
            init_timeout=_milliseconds(properties, "kafkastore.init.timeout.ms", 60_000),
            group_times=GroupTimes(
                session,
                _milliseconds(properties, "kafkastore.rebalance.timeout.ms", int(session * 1000)),
                _milliseconds(properties, "kafkastore.heartbeat.interval.ms", min(3000, int(session * 300))),
            ),
            max_body=_number(properties, "max.request.bytes", 16 << 20),
            allowed_hosts=names_of(properties),
        )


def client_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the cluster's client properties: `kafkastore.security.protocol` becomes `security.protocol`."""
    client = {
        name.removeprefix(_PREFIX): value for name, value in properties.items() if name.startswith(_PREFIX)
    }
    # Addresses may start with a protocol, as in Confluent's files.
    servers = client.get("bootstrap.servers", "")
    client["bootstrap.servers"] = re.sub(r"\b[A-Z_]+://", "", servers)
    return client


def parse_listeners(text: str) -> tuple[Listener, ...]:
    listeners = []
    for each in filter(None, (part.strip() for part in text.split(","))):
        found = _LISTENER.fullmatch(each)
        if found is None or int(found["port"]) > 65535:
            raise BadSettings(f"listeners has '{each}': write http://HOST:PORT or https://HOST:PORT.")
        listeners.append(Listener(found["scheme"], found["host"].strip("[]"), int(found["port"])))
    if not listeners:
        raise BadSettings("listeners must name at least one address, for example http://0.0.0.0:8081.")
    return tuple(listeners)


def _inter_instance_scheme(properties: Mapping[str, str], listeners: tuple[Listener, ...]) -> str:
    scheme = (
        properties.get("inter.instance.protocol")
        or properties.get("schema.registry.inter.instance.protocol")
        or listeners[0].scheme
    ).lower()
    if scheme not in {each.scheme for each in listeners}:
        raise BadSettings(f"inter.instance.protocol is {scheme}, but no listener has it.")
    return scheme


def _flag(properties: Mapping[str, str], *names: str) -> bool:
    return next((properties[name] for name in names if name in properties), "true").strip().lower() == "true"


def _number(properties: Mapping[str, str], name: str, default: int) -> int:
    text = properties.get(name, str(default))
    if not text.strip().isdecimal():
        raise BadSettings(f"{name} must be a number, not '{text}'.")
    return int(text)


def _milliseconds(properties: Mapping[str, str], name: str, default: int) -> float:
    return _number(properties, name, default) / 1000
