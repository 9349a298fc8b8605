"""Messages between the group's nodes: identities and the elected leader. Pure."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from ottla.registry.model.contracts import Json
from ottla.registry.model.records import to_bytes

PROTOCOL_TYPE = "sr"
PROTOCOL = "v0"
_VERSION = 1
NO_ERROR = 0
DUPLICATE_URLS = 1


class Identity(NamedTuple):
    """Address of a node for other nodes."""

    host: str
    port: int
    is_eligible: bool = True
    scheme: str = "http"

    @property
    def url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"

    def to_json(self) -> Json:
        return {
            "version": _VERSION,
            "host": self.host,
            "port": self.port,
            "master_eligibility": self.is_eligible,
            "scheme": self.scheme,
        }


class Assignment(NamedTuple):
    error: int
    leader_member: str | None
    leader: Identity | None


def identity_of(fields: Json) -> Identity:
    return Identity(
        str(fields["host"]),
        int(fields["port"]),
        bool(fields.get("master_eligibility", fields.get("leader_eligibility", True))),
        str(fields.get("scheme") or "http"),
    )


def encode_identity(identity: Identity) -> bytes:
    return to_bytes(identity.to_json())


def decode_identity(data: bytes) -> Identity:
    """Raises ValueError, KeyError or TypeError for invalid data."""
    return identity_of(json.loads(data))


def elect(members: Mapping[str, Identity]) -> Assignment:
    """Elect the eligible node with the smallest URL."""
    urls = [each.url for each in members.values()]
    if len(set(urls)) < len(urls):
        return Assignment(DUPLICATE_URLS, None, None)
    eligible = [(each.url, member) for member, each in members.items() if each.is_eligible]
    if not eligible:
        return Assignment(NO_ERROR, None, None)
    _, leader = min(eligible)
    return Assignment(NO_ERROR, leader, members[leader])


def encode_assignment(assignment: Assignment) -> bytes:
    leader = assignment.leader
    return to_bytes(
        {
            "version": _VERSION,
            "error": assignment.error,
            "master": assignment.leader_member,
            "master_identity": None if leader is None else leader.to_json(),
        }
    )


def decode_assignment(data: bytes) -> Assignment:
    fields = json.loads(data)
    identity = fields.get("master_identity")
    return Assignment(
        int(fields.get("error") or 0),
        fields.get("master"),
        None if identity is None else identity_of(identity),
    )
