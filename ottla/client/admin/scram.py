"""SCRAM credentials of users: describe, set, delete. Passwords never leave this process."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ottla.client.admin.routing import ask_controller
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError, check_accepted
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import sasl as messages

# Mechanism → protocol number and hash.
MECHANISMS = {"SCRAM-SHA-256": (1, "sha256"), "SCRAM-SHA-512": (2, "sha512")}
DEFAULT_ITERATIONS = 4096
_SALT_BYTES = 24


@dataclass(frozen=True, slots=True)
class Credential:
    user: str
    iterations: dict[str, int]  # by mechanism


@dataclass(frozen=True, slots=True)
class Secret:
    password: str
    iterations: int = DEFAULT_ITERATIONS


def describe_credentials(cluster: Cluster, users: list[str] | None) -> list[Credential]:
    """Return the credentials of these users, or of all with None. Users without credentials are omitted."""
    asked = None if users is None else [messages.UserName(name=user) for user in users]
    request = messages.DescribeUserScramCredentialsRequest(users=asked)
    answer = cluster.any_connection().request(request, messages.DescribeUserScramCredentialsResponse)
    check_accepted("The credentials", answer)
    names = {number: name for name, (number, _) in MECHANISMS.items()}
    found = []
    for result in answer.results:
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check_accepted(f"User '{result.user}'", result)
        infos = {names.get(each.mechanism, "UNKNOWN"): each.iterations for each in result.credential_infos}
        found.append(Credential(result.user, infos))
    return found


def alter_credentials(
    cluster: Cluster, user: str, *, set_: Mapping[str, Secret], delete: Iterable[str] = ()
) -> None:
    upsertions = []
    for mechanism, secret in set_.items():
        number, digest = MECHANISMS[mechanism]
        salt = secrets.token_bytes(_SALT_BYTES)
        salted = hashlib.pbkdf2_hmac(digest, secret.password.encode(), salt, secret.iterations)
        upsertions.append(
            messages.ScramCredentialUpsertion(
                name=user, mechanism=number, iterations=secret.iterations, salt=salt, salted_password=salted
            )
        )
    request = messages.AlterUserScramCredentialsRequest(
        deletions=[
            messages.ScramCredentialDeletion(name=user, mechanism=MECHANISMS[each][0]) for each in delete
        ],
        upsertions=upsertions,
    )
    if request.api_key not in cluster.any_connection().versions:
        raise ClientError(
            "The cluster keeps no credentials of users: its brokers do not support SASL/SCRAM yet."
        )

    def check(answer: messages.AlterUserScramCredentialsResponse) -> None:
        for result in answer.results:
            check_accepted(f"User '{result.user}'", result)

    ask_controller(cluster, request, messages.AlterUserScramCredentialsResponse, check)
