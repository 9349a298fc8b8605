"""Quotas, as `kafka-configs` shows and changes them for users, clients and ips."""

from __future__ import annotations

import socket

from ottla.cli.client import Client
from ottla.cli.kafka import tool
from ottla.cli.kafka.settings import credentials
from ottla.cli.kafka.tool import hash_map_order
from ottla.client.admin.quotas import ANY, alter_quotas, describe_quotas

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
_RATES = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

Entities = list[tuple[str, str | None]]


def describe(client: Client, entities: Entities) -> None:
    asked: dict[str, object] = {}
    for entity_type, name in entities:
        asked[KINDS[entity_type]] = ANY if name is None else name or None
    for quota in describe_quotas(client.cluster, asked):
        who = ", ".join(
            f"the default {_WORDS[kind]}"
            if quota.entity[kind] is None
            else f"{_WORDS[kind]} '{quota.entity[kind]}'"
            for kind in _WORDS
            if kind in quota.entity
        )
        names = hash_map_order(quota.values, least=1)
        values = ", ".join(f"{name}={java_double(quota.values[name])}" for name in names)
        print(f"Quota configs for {who} are {values}")
    [first, *others] = entities
    if first[0] == "users" and first[1] != "" and not others:
        credentials.describe(client, first[1])


def alter(client: Client, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    first, name = entities[0]
    _check_names(first, list(added), "added", "Set({})")
    _check_names(first, deleted, "deleted", "ArrayBuffer({})")
    secret = [key in credentials.MECHANISMS for key in (*added, *deleted)]
    if any(secret):
        if not all(secret):
            raise tool.UsageError(
                "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using "
                "--bootstrap-server."
            )
        if len(entities) > 1 or not name:
            raise tool.UsageError(
                "The use of --entity-default or --user-defaults is not allowed with User SCRAM Credentials using "
                "--bootstrap-server."
            )
        credentials.alter(client, name, added, deleted)
        return
    values = {}
    for key, value in added.items():
        try:
            values[key] = float(value)
        except ValueError:
            raise tool.UsageError(f"Cannot parse quota configuration value for {key}: {value}") from None
    entity = {KINDS[entity_type]: name or None for entity_type, name in entities}
    present = {
        key
        for quota in describe_quotas(client.cluster, entity)
        if quota.entity == entity
        for key in quota.values
    }
    absent = [key for key in deleted if key not in present]
    if absent:
        raise tool.UsageError(f"Invalid config(s): {','.join(absent)}")
    alter_quotas(client.cluster, entity, set_=values, delete=deleted)
    if name:
        print(f"Completed updating config for {first.removesuffix('s')} {name}.")
    else:
        print(f"Completed updating default config for {first} in the cluster.")


def resolvable(host: str) -> bool:
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError):
        return False
    return True


def _check_names(entity_type: str, names: list[str], what_for: str, shown: str) -> None:
    """Refuse names that are neither quotas nor credentials. `shown` is the list as Java prints it."""
    known: tuple[str, ...] = _RATES
    kind = "quota"
    if entity_type == "ips":
        kind, known = "connection quota", ("connection_creation_rate",)
        what_for, shown = "added", "{}"
    elif entity_type == "users":
        kind, known = "quota and SCRAM credential", (*_RATES, *credentials.MECHANISMS)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise tool.UsageError(
            f"Only {kind} configs can be {what_for} for '{entity_type}' using --bootstrap-server. "
            f"Unexpected config names: {shown.format(', '.join(unknown))}"
        )


def java_double(value: float) -> str:
    """Format a number like Java: 1000.0, but 1.0E7 from ten million."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(1, 17):  # the shortest that means the same
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    return f"{mantissa}E{int(exponent)}"
