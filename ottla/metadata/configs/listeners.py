"""Listeners: bound addresses, advertised addresses, and per-listener settings."""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ottla.metadata.configs.config_defs import Value
from ottla.metadata.nodes import Endpoint

SECURITY_PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_LISTENER = re.compile(r"([^:/]+)://(?:\[([0-9a-fA-F:%.]+)\]|([\w.%-]*)):([0-9]{1,5})", re.ASCII)
_EVERY_INTERFACE = ("", "0.0.0.0", "::")


class ListenerError(ValueError):
    """An invalid list of listeners. The message is one sentence without the name of the setting."""


class Listener(NamedTuple):
    name: str
    security_protocol: str
    host: str  # empty: every interface
    port: int  # 0: any free port


def parse_protocol_map(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for pair in filter(None, (part.strip() for part in text.split(","))):
        name, _, protocol = pair.rpartition(":")
        if not name or protocol.strip().upper() not in SECURITY_PROTOCOLS:
            raise ListenerError(
                f"{pair!r} is not a pair of a listener and a protocol: write NAME:PROTOCOL with one of "
                + ", ".join(SECURITY_PROTOCOLS)
            )
        if name.strip().upper() in protocols:
            raise ListenerError(f"{name.strip().upper()} appears twice: keep one of them")
        protocols[name.strip().upper()] = protocol.strip().upper()
    return protocols


def parse_listeners(texts: Sequence[str], protocols: Mapping[str, str]) -> tuple[Listener, ...]:
    listeners: dict[str, Listener] = {}
    for text in texts:
        match = _LISTENER.fullmatch(text)
        if match is None or int(match[4]) > 65535:
            raise ListenerError(
                f"{text!r} is not a listener: write NAME://host:port, such as PLAINTEXT://:9092"
            )
        name = match[1].upper()
        if name not in protocols:
            raise ListenerError(
                f"no security protocol is known for {name}: add it to listener.security.protocol.map"
            )
        if name in listeners:
            raise ListenerError(f"{name} appears twice: give each listener its own name")
        listeners[name] = Listener(name, protocols[name], match[2] or match[3] or "", int(match[4]))
    return tuple(listeners.values())


def check_bound(listeners: Sequence[Listener]) -> None:
    """Require at least one listener and distinct addresses."""
    if not listeners:
        raise ListenerError("no listener is left: give at least one, such as PLAINTEXT://:9092")
    taken: dict[tuple[str, int], str] = {}
    for listener in listeners:
        other = taken.setdefault((listener.host, listener.port), listener.name)
        if listener.port and other != listener.name:
            raise ListenerError(f"{other} and {listener.name} want the same port: give one of them another")


def check_advertised(advertised: Sequence[Listener], listeners: Sequence[Listener]) -> None:
    bound = {listener.name for listener in listeners}
    for listener in advertised:
        if listener.host in ("0.0.0.0", "::"):
            raise ListenerError(
                f"clients cannot connect to {listener.host}: name a host that clients can reach, or none at all"
            )
        if listener.name not in bound:
            raise ListenerError(f"{listener.name} is not among the listeners: add it there, or drop it here")


def advertised_endpoints(
    advertised: Sequence[Listener], bound_ports: Mapping[str, int]
) -> tuple[Endpoint, ...]:
    """Return the endpoints that clients connect to. `bound_ports` replaces port 0, by listener."""
    return tuple(
        Endpoint(
            listener.name,
            listener.security_protocol,
            socket.gethostname() if listener.host in _EVERY_INTERFACE else listener.host,
            listener.port or bound_ports.get(listener.name, 0),
        )
        for listener in advertised
    )


# Per-listener settings


def own_listener_value(
    values: Mapping[str, Value], listener: str, name: str, mechanism: str | None = None
) -> Value:
    """Return the value set for this listener only, preferring the SASL mechanism's own; None if unset."""
    prefix = f"listener.name.{listener.lower()}."
    own = values.get(f"{prefix}{mechanism.lower()}.{name}") if mechanism is not None else None
    return values.get(prefix + name) if own is None else own


def listener_value(
    values: Mapping[str, Value], listener: str, name: str, mechanism: str | None = None
) -> Value:
    own = own_listener_value(values, listener, name, mechanism)
    return values[name] if own is None else own
