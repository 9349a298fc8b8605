"""Quotas, as `kafka-configs` shows and changes them for users, clients and ips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.cli.errors import JobError

if TYPE_CHECKING:
    from ottla.cli.client import Client

KINDS = {"users": "user", "clients": "client-id", "ips": "ip"}
_WORDS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}

Entities = list[tuple[str, str | None]]


def describe(client: Client, entities: Entities) -> None:
    from ottla.cli.jobs.quotas import ANY, describe_quotas

    asked: dict[str, object] = {}
    for entity_type, name in entities:
        asked[KINDS[entity_type]] = ANY if name is None else name or None
    for quota in describe_quotas(client, asked):
        who = ", ".join(
            f"the default {_WORDS[kind]}"
            if quota.entity[kind] is None
            else f"{_WORDS[kind]} '{quota.entity[kind]}'"
            for kind in _WORDS
            if kind in quota.entity
        )
        values = ", ".join(f"{key}={java_double(value)}" for key, value in quota.values.items())
        print(f"Quota configs for {who} are {values}")


def alter(client: Client, entities: Entities, added: dict[str, str], deleted: list[str]) -> None:
    from ottla.cli.jobs.quotas import alter_quotas

    if any(key.startswith("SCRAM-") for key in (*added, *deleted)):
        raise JobError("Credentials of users are not supported yet.")
    try:
        values = {key: float(value) for key, value in added.items()}
    except ValueError:
        raise JobError("The value of a quota is a number.") from None
    alter_quotas(
        client,
        {KINDS[entity_type]: name or None for entity_type, name in entities},
        set_=values,
        delete=deleted,
    )
    first, name = entities[0]
    if name:
        print(f"Completed updating config for {first.removesuffix('s')} {name}.")
    else:
        print(f"Completed updating default config for {first} in the cluster.")


def java_double(value: float) -> str:
    """1000.0, but 1.0E7 from ten millions on."""
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, exponent = f"{value:.16e}".partition("e")
    for digits in range(1, 17):  # the shortest that means the same
        mantissa, _, exponent = f"{value:.{digits}e}".partition("e")
        if float(f"{mantissa}e{exponent}") == value:
            break
    return f"{mantissa}E{int(exponent)}"
