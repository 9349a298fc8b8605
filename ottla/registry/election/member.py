"""A thread that is a member of the registry's group and says who leads."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

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
from ottla.registry.election.protocol import (
    DUPLICATE_URLS,
    PROTOCOL,
    PROTOCOL_TYPE,
    Assignment,
    Identity,
    decode_assignment,
    decode_identity,
    elect,
    encode_assignment,
    encode_identity,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class GroupTimes:
    """In seconds."""

    session: float = 10.0
    rebalance: float = 10.0
    heartbeat: float = 3.0


class _JoinAgain(Exception):
    """A rebalance: we are a member, and have to say so again."""


class _Forgotten(Exception):
    """The coordinator does not know us any more."""


class GroupMember:
    """`on_leader` is called in the thread of the member, with None while it is not known who leads."""

    def __init__(
        self,
        settings: Settings,
        group: str,
        identity: Identity,
        on_leader: Callable[[Identity | None], None],
        times: GroupTimes,
    ) -> None:
        # A join is answered when all members are there.
        self._settings = replace(
            settings, request_timeout=max(settings.request_timeout, times.rebalance + 10)
        )
        self._group = group
        self._identity = identity
        self._on_leader = on_leader
        self._times = times
        self._member_id = ""
        self._generation = -1
        self._stopping = threading.Event()
        self._rejoin = threading.Event()
        self._wake = threading.Event()
        self._thread = threading.Thread(target=self._run, name="registry-election", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Leave the group, so that the others elect at once."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()

    def elect_again(self) -> None:
        self._rejoin.set()
        self._wake.set()

    def _run(self) -> None:
        cluster = Cluster(self._settings)
        heard = time.monotonic()
        in_trouble = False
        try:
            while not self._stopping.is_set():
                try:
                    connection = self._coordinator(cluster)
                    assignment = self._join(connection)
                    heard, in_trouble = time.monotonic(), False
                    self._announce(assignment)
                    while True:
                        self._pause()
                        if self._stopping.is_set():
                            self._leave(connection)
                            return
                        if self._rejoin.is_set():
                            self._rejoin.clear()
                            break
                        self._beat(connection)
                        heard = time.monotonic()
                except _JoinAgain:
                    continue
                except _Forgotten:
                    self._member_id, self._generation = "", -1
                    self._on_leader(None)
                except ClientError as error:
                    if not in_trouble:
                        _log.warning("Group %s of the registry cannot be reached: %s", self._group, error)
                    in_trouble = True
                    if time.monotonic() - heard > self._times.session:
                        self._on_leader(None)  # by now the others may have elected somebody else
                    self._stopping.wait(self._settings.retry_backoff)
        finally:
            cluster.close()

    def _pause(self) -> None:
        self._wake.wait(self._times.heartbeat)
        self._wake.clear()

    def _coordinator(self, cluster: Cluster) -> Connection:
        node = cluster.coordinators(CoordinatorType.GROUP, [self._group])[self._group]
        return cluster.connection(node.address)

    def _announce(self, assignment: Assignment) -> None:
        if assignment.error == DUPLICATE_URLS:
            _log.error(
                "Two nodes of the registry have the same URL, so none can lead: give each a host.name and a "
                "port of its own."
            )
        self._on_leader(assignment.leader)

    def _join(self, connection: Connection) -> Assignment:
        joined = self._request_join(connection)
        assignments = []
        if joined.leader == joined.member_id:
            elected = encode_assignment(elect(self._identities(joined)))
            assignments = [
                SyncGroupRequestAssignment(member_id=each.member_id, assignment=elected)
                for each in joined.members
            ]
        request = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self._member_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=PROTOCOL,
            assignments=assignments,
        )
        answer = connection.request(request, SyncGroupResponse)
        self._check(answer.error_code)
        try:
            return decode_assignment(bytes(answer.assignment))
        except (ValueError, KeyError, TypeError):
            raise ClientError(f"The assignment of group '{self._group}' cannot be read.") from None

    def _request_join(self, connection: Connection) -> JoinGroupResponse:
        while True:
            request = JoinGroupRequest(
                group_id=self._group,
                session_timeout_ms=int(self._times.session * 1000),
                rebalance_timeout_ms=int(self._times.rebalance * 1000),
                member_id=self._member_id,
                protocol_type=PROTOCOL_TYPE,
                protocols=[JoinGroupRequestProtocol(name=PROTOCOL, metadata=encode_identity(self._identity))],
            )
            answer = connection.request(request, JoinGroupResponse)
            if answer.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                self._member_id = answer.member_id
                continue
            self._check(answer.error_code)
            self._member_id, self._generation = answer.member_id, answer.generation_id
            return answer

    def _identities(self, joined: JoinGroupResponse) -> dict[str, Identity]:
        found = {}
        for member in joined.members:
            try:
                found[member.member_id] = decode_identity(bytes(member.metadata))
            except (ValueError, KeyError, TypeError):
                _log.error("Member %s of group %s is not a registry.", member.member_id, self._group)
        return found

    def _beat(self, connection: Connection) -> None:
        request = HeartbeatRequest(
            group_id=self._group, generation_id=self._generation, member_id=self._member_id
        )
        self._check(connection.request(request, HeartbeatResponse).error_code)

    def _check(self, number: int) -> None:
        code = error_code(number)
        if code == ErrorCode.NONE:
            return
        if code == ErrorCode.REBALANCE_IN_PROGRESS:
            raise _JoinAgain
        if code in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION, ErrorCode.FENCED_INSTANCE_ID):
            raise _Forgotten
        raise ClientError(f"Group '{self._group}' cannot be joined: {code.name}.", code)

    def _leave(self, connection: Connection) -> None:
        request = LeaveGroupRequest(
            group_id=self._group,
            member_id=self._member_id,
            members=[MemberIdentity(member_id=self._member_id)],
        )
        try:
            connection.request(request, LeaveGroupResponse)
        except ClientError as error:
            _log.info("Left group %s without a farewell: %s", self._group, error)
