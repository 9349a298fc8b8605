"""Leader election: membership in the group of registries, its messages, and requests forwarded to the leader."""

from __future__ import annotations

import json
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from ottla.client.group_member import GroupMember, GroupTimes, Membership
from ottla.client.settings import Settings
from ottla.http.forwarding import Forwarder
from ottla.registry.model.contracts import Json
from ottla.registry.model.records import to_bytes

# Messages between the group's nodes: identities and the elected leader. Pure.

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


# The registry's group membership: announces this node and learns the leader.

_log = logging.getLogger(__name__)


class Election:
    """Calls `on_leader` in the member's thread, with None while the leader is unknown."""

    type = PROTOCOL_TYPE

    def __init__(self, group: str, identity: Identity, on_leader: Callable[[Identity | None], None]) -> None:
        self._group = group
        self._identity = identity
        self._on_leader = on_leader

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        return [(PROTOCOL, encode_identity(self._identity))]

    def assign(self, membership: Membership, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        elected = encode_assignment(elect(self._identities(members)))
        return dict.fromkeys(members, elected)

    def assigned(self, membership: Membership, assignment: bytes) -> None:
        elected = decode_assignment(assignment)
        if elected.error == DUPLICATE_URLS:
            _log.error(
                "Two nodes of the registry have the same URL, so none can lead: give each a host.name and a "
                "port of its own."
            )
        self._on_leader(elected.leader)

    def lost(self) -> None:
        self._on_leader(None)

    def _identities(self, members: Mapping[str, bytes]) -> dict[str, Identity]:
        found = {}
        for member, metadata in members.items():
            try:
                found[member] = decode_identity(metadata)
            except (ValueError, KeyError, TypeError):
                _log.error("Member %s of group %s is not a registry.", member, self._group)
        return found


def election_member(
    settings: Settings,
    group: str,
    identity: Identity,
    on_leader: Callable[[Identity | None], None],
    times: GroupTimes,
) -> GroupMember:
    election = Election(group, identity, on_leader)
    return GroupMember(settings, group, election, times, "registry-election")


# Forward requests to the leader of the registry.

#: Marks forwarded requests, which are not forwarded again.
FORWARDED = "x-forward"
#: The leader's log position, so that this node can wait until it has read the same records.
READ_UNTIL = "x-read-until"
MARKS = {"X-Forward": "true"}
_PASSED_ON = (
    "accept",
    "authorization",
    "content-type",
    "confluent-accept-unknown-properties",
    "confluent-client-version",
    "x-confluent-client-id",
)


def leader_forwarder(tls: ssl.SSLContext | None, timeout: float) -> Forwarder:
    return Forwarder(tls, timeout, headers=_PASSED_ON, kept=(READ_UNTIL,))
