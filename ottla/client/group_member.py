"""A thread that joins a group with the classic protocol and a custom assignment.

The schema registry elects its leader this way, and Connect workers share connectors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, Protocol

from ottla.client.cluster import Cluster, CoordinatorType
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, error_code
from ottla.client.settings import Settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.groups import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MemberIdentity,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
    SyncGroupResponse,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GroupTimes:
    """In seconds."""

    session: float = 10.0
    rebalance: float = 10.0
    heartbeat: float = 3.0


class _JoinAgain(Exception):
    """The group is rebalancing: the member has to rejoin."""


class _Forgotten(Exception):
    """The coordinator no longer knows this member."""


class Membership(NamedTuple):
    """A member's state in one generation of its group."""

    member_id: str
    generation: int
    protocol: str
    #: The member that computes the assignment.
    leader_id: str

    @property
    def is_leader(self) -> bool:
        return self.member_id == self.leader_id


class GroupProtocol(Protocol):
    """Contents of the protocol between members. All methods are called in the member's thread."""

    #: Protocol type in `JoinGroup`: `consumer`, `connect`, `sr`.
    type: str

    def metadata(self) -> Sequence[tuple[str, bytes]]:
        """Return the protocols by preference with metadata for the assigning member, before each join."""

    def assign(self, membership: Membership, members: Mapping[str, bytes]) -> Mapping[str, bytes]:
        """Assign a part to each member, based on its `metadata`."""

    def assigned(self, membership: Membership, assignment: bytes) -> None:
        """Raises ValueError, KeyError or TypeError if the assignment is malformed."""

    def lost(self) -> None:
        """Handle a lost membership, certain or possible: the group was silent for a whole session."""


class GroupMember:
    def __init__(
        self, settings: Settings, group: str, protocol: GroupProtocol, times: GroupTimes, name: str
    ) -> None:
        """`name` is the thread's name."""
        # A join is answered once all members have joined.
        self._settings = replace(
            settings, request_timeout=max(settings.request_timeout, times.rebalance + 10)
        )
        self._group = group
        self._protocol = protocol
        self._times = times
        self._member_id = ""
        self._generation = -1
        #: Monotonic send time of the last successful request. A join may be answered late; until then the coordinator
        #: counts this client as a member.
        self.heard = time.monotonic()
        self.is_joining = False
        self._stopping = threading.Event()
        self._rejoin = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that the others elect at once."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def rejoin(self) -> None:
        self._rejoin.set()
        self._wake.set()

    def _run(self) -> None:
        cluster = Cluster(self._settings)
        self.heard = time.monotonic()
        in_trouble = False
        try:
            while not self._stopping.is_set():
                try:
                    connection = self._coordinator(cluster)
                    self._rejoin.clear()
                    self._join(connection)
                    in_trouble = False
                    while not self._rejoin.is_set():
                        self._pause()
                        if self._stopping.is_set():
                            break
                        if not self._rejoin.is_set():
                            self._beat(connection)
                except _JoinAgain:
                    continue
                except _Forgotten:
                    self._member_id, self._generation = "", -1
                    self._protocol.lost()
                except ClientError as error:
                    if not in_trouble:
                        _log.warning("Group %s cannot be reached: %s", self._group, error)
                    in_trouble = True
                    if time.monotonic() - self.heard > self._times.session:
                        self._protocol.lost()  # other members may already own this member's part
                    self._stopping.wait(self._settings.retry_backoff)
            if self._member_id and not in_trouble:
                self._leave(cluster)
        finally:
            cluster.close()

    def _pause(self) -> None:
        self._wake.wait(self._times.heartbeat)
        self._wake.clear()

    def _coordinator(self, cluster: Cluster) -> Connection:
        node = cluster.coordinators(CoordinatorType.GROUP, [self._group])[self._group]
        return cluster.connection(node.address)

    def _join(self, connection: Connection) -> None:
        self.is_joining = True
        try:
            joined = self._request_join(connection)
            membership = Membership(
                joined.member_id, joined.generation_id, joined.protocol_name or "", joined.leader
            )
            sent = time.monotonic()
            assignment = self._sync(connection, membership, joined)
            self.heard = sent
        finally:
            self.is_joining = False
        try:
            self._protocol.assigned(membership, assignment)
        except (ValueError, KeyError, TypeError):
            raise ClientError(f"The assignment of group '{self._group}' cannot be read.") from None

    def _request_join(self, connection: Connection) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=int(self._times.session * 1000),
                rebalance_timeout_ms=int(self._times.rebalance * 1000),
                member_id=self._member_id,
                protocol_type=self._protocol.type,
                protocols=[
                    JoinGroupRequestProtocol(name=name, metadata=metadata)
                    for name, metadata in self._protocol.metadata()
                ],
            )
            answer = connection.request(request, JoinGroupResponse)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self._member_id, self._generation = answer.member_id, answer.generation_id
            return answer

    def _sync(self, connection: Connection, membership: Membership, joined: JoinGroupResponse) -> bytes:
        assignments: Mapping[str, bytes] = {}
        if membership.is_leader:
            members = {each.member_id: bytes(each.metadata) for each in joined.members}
            assignments = self._protocol.assign(membership, members)
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=membership.generation,
            member_id=membership.member_id,
            protocol_type=self._protocol.type,
            protocol_name=membership.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member, assignment=assignment)
                for member, assignment in assignments.items()
            ],
        )
        answer = connection.request(request, SyncGroupResponse)
        self._check(answer.error_code)
        return bytes(answer.assignment)

    def _beat(self, connection: Connection) -> None:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        sent = time.monotonic()
        self._check(connection.request(request, HeartbeatResponse).error_code)
        self.heard = sent

    def _check(self, number: int) -> None:
        code = error_code(number)
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _JoinAgain
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            raise _Forgotten
        raise ClientError(f"Group '{self._group}' cannot be joined: {code.name}.", code)

    def _leave(self, cluster: Cluster) -> None:
        request = LeaveGroupRequest(
            group_id=self._group,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id)],
        )
        try:
            self._coordinator(cluster).request(request, LeaveGroupResponse)
        except ClientError as error:
            _log.info("Left group %s without a farewell: %s", self._group, error)
