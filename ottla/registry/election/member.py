"""The registry's group membership: announces this node and learns the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence

from ottla.client.group_member import GroupMember, GroupTimes, Membership
from ottla.client.settings import Settings
from ottla.registry.election.protocol import (
    DUPLICATE_URLS,
    PROTOCOL,
    PROTOCOL_TYPE,
    Identity,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)

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
