"""Membership of a classic group: members, leader, and the protocol they agree on.

Plain data and arithmetic; `group.py` has the state transitions.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ottla.coordinator.groups.base.effects import JoinedMember, JoinRequest, MemberProtocol
from ottla.protocol.codec import MalformedMessage
from ottla.protocol.messages.consumer_groups import ConsumerProtocolSubscription

CONSUMER_PROTOCOL_TYPE = "consumer"


@dataclass(slots=True)
class Member:
    member_id: str
    group_instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    protocols: tuple[MemberProtocol, ...]
    assignment: bytes = b""
    # Parked JoinGroup and SyncGroup requests of this member, each answered exactly once.
    join_ticket: object | None = None
    sync_ticket: object | None = None
    # True until a generation includes the member.
    is_new: bool = False

    @classmethod
    def from_request(cls, member_id: str, request: JoinRequest) -> Member:
        return cls(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.client_host,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
            is_new=True,
        )

    @property
    def is_static(self) -> bool:
        return self.group_instance_id is not None

    @property
    def is_awaiting_join(self) -> bool:
        return self.join_ticket is not None

    @property
    def session_may_lapse(self) -> bool:
        """Return True if the session may expire.

        A parked request proves that a known member is alive; new members have their own, longer timeout.
        """
        return self.is_new or (self.join_ticket is None and self.sync_ticket is None)

    def metadata(self, protocol_name: str | None) -> bytes:
        for name, metadata in self.protocols:
            if name == protocol_name:
                return metadata
        return b""


class Membership:
    """Members by id, in join order.

    Invariants: `static` maps each instance id to exactly one member; the leader, if any, is a member; removing a member
    also clears its pending and pending-sync ids.
    """

    __slots__ = ("awaiting_join", "leader", "members", "pending", "pending_sync", "protocol_counts", "static")

    def __init__(self) -> None:
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        self.leader: str | None = None
        # Unused ids from MEMBER_ID_REQUIRED responses.
        self.pending: set[str] = set()
        # Members of this generation that have not sent SyncGroup yet.
        self.pending_sync: set[str] = set()
        self.protocol_counts: dict[str, int] = {}
        # Number of members with a parked JoinGroup. A counter, because every join reads it.
        self.awaiting_join = 0

    def __len__(self) -> int:
        return len(self.members)

    def __contains__(self, member_id: object) -> bool:
        return member_id in self.members

    def __iter__(self) -> Iterator[Member]:
        return iter(self.members.values())

    def add(self, member: Member) -> None:
        if member.group_instance_id is not None:
            self.static[member.group_instance_id] = member.member_id
        if self.leader is None:
            self.leader = member.member_id
        self.members[member.member_id] = member
        self._count_protocols(member.protocols, 1)
        self.pending.discard(member.member_id)

    def remove(self, member_id: str) -> None:
        """Remove a member whose parked requests have been answered."""
        self.pending.discard(member_id)
        self.pending_sync.discard(member_id)
        member = self.members.pop(member_id, None)
        if member is None:
            return
        self._count_protocols(member.protocols, -1)
        if member.group_instance_id is not None:
            del self.static[member.group_instance_id]
        if self.leader == member_id:
            self.leader = next(iter(self.members), None)

    def park_join(self, member: Member, ticket: object) -> None:
        member.join_ticket = ticket
        self.awaiting_join += 1

    def unpark_join(self, member: Member) -> None:
        member.join_ticket = None
        self.awaiting_join -= 1

    def replace_static(self, instance_id: str, old_member_id: str, new_member_id: str) -> None:
        """Give a static member another id; it keeps its position, assignment and leadership."""
        member = self.members[old_member_id]
        member.member_id = new_member_id
        self.members = {m.member_id: m for m in self.members.values()}
        self.static[instance_id] = new_member_id
        if self.leader == old_member_id:
            self.leader = new_member_id
        if old_member_id in self.pending_sync:
            self.pending_sync.remove(old_member_id)
            self.pending_sync.add(new_member_id)

    def update(
        self,
        member: Member,
        protocols: tuple[MemberProtocol, ...],
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
    ) -> None:
        self._count_protocols(member.protocols, -1)
        member.protocols = protocols
        self._count_protocols(protocols, 1)
        member.rebalance_timeout_ms = rebalance_timeout_ms
        member.session_timeout_ms = session_timeout_ms

    def elect_joined_leader(self) -> bool:
        """Keep a leader that rejoined, else choose another rejoined member. Return False if no member rejoined."""
        if self.leader is None:
            return False
        if self.members[self.leader].is_awaiting_join:
            return True
        for member in self:
            if member.is_awaiting_join:
                self.leader = member.member_id
                return True
        return False

    @property
    def have_all_joined(self) -> bool:
        return not self.pending and self.awaiting_join == len(self.members)

    @property
    def rebalance_timeout_ms(self) -> int:
        return max((member.rebalance_timeout_ms for member in self), default=0)

    def supports_any(self, protocols: tuple[MemberProtocol, ...]) -> bool:
        size = len(self.members)
        return any(self.protocol_counts.get(name, 0) == size for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes. Each member votes for its first commonly supported protocol."""
        size = len(self.members)
        votes: dict[str, int] = {}
        for member in self:
            for name, _ in member.protocols:
                if self.protocol_counts[name] == size:
                    votes[name] = votes.get(name, 0) + 1
                    break
        return max(votes, key=votes.__getitem__)

    def joined(self, protocol_name: str | None) -> list[JoinedMember]:
        return [JoinedMember(m.member_id, m.group_instance_id, m.metadata(protocol_name)) for m in self]

    def _count_protocols(self, protocols: tuple[MemberProtocol, ...], step: int) -> None:
        counts = self.protocol_counts
        for name in {name for name, _ in protocols}:
            count = counts.get(name, 0) + step
            if count:
                counts[name] = count
            else:
                del counts[name]


def subscribed_topics(metadata: bytes) -> set[str]:
    """Return the topics of a consumer subscription. Raises ValueError for malformed bytes.

    Version 0 is a prefix of every later version, so reading version 0 is enough.
    """
    if int.from_bytes(metadata[:2], "big", signed=True) < 0:
        raise ValueError("negative version of a subscription")
    try:
        return set(ConsumerProtocolSubscription.decode(metadata, 0, 2).topics)
    except MalformedMessage as error:
        raise ValueError("not a consumer subscription") from error
