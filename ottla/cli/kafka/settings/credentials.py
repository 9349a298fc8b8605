"""SCRAM credentials, as `kafka-configs` shows and changes them for users."""

from __future__ import annotations

from ottla.cli.client import Client
from ottla.cli.kafka import tool
from ottla.client.admin.scram import DEFAULT_ITERATIONS, Secret, alter_credentials, describe_credentials

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512")


def describe(client: Client, user: str | None) -> None:
    for credential in describe_credentials(client.cluster, None if user is None else [user]):
        infos = ", ".join(f"{name}=iterations={count}" for name, count in credential.iterations.items())
        print(f"SCRAM credential configs for user-principal '{credential.user}' are {infos}")


def alter(client: Client, user: str, added: dict[str, str], deleted: list[str]) -> None:
    secrets = {mechanism: secret_of(mechanism, text) for mechanism, text in added.items()}
    alter_credentials(client.cluster, user, set_=secrets, delete=deleted)
    print(f"Completed updating config for user {user}.")


def secret_of(mechanism: str, text: str) -> Secret:
    """[iterations=8192,password=secret], without the brackets; a password may have commas in it."""
    settings, _, password = text.partition("password=")
    count = settings.strip().rstrip(",").removeprefix("iterations=") or str(DEFAULT_ITERATIONS)
    if not password or not count.isdecimal():
        raise tool.UsageError(f"Invalid credential property {mechanism.replace('-', '_')}={text}")
    if int(count) < DEFAULT_ITERATIONS:
        raise tool.UsageError(
            f"Iterations {count} is less than the minimum {DEFAULT_ITERATIONS} required for {mechanism}"
        )
    return Secret(password, int(count))
