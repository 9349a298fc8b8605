"""The leader's side of replication: answers follower fetches, which may read up to the log end offset.

A follower has one session on one connection. `follower_fetcher` is the follower's side and describes the rule shared by
both.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.cluster.replication.follower_session import FollowerConnection, FollowerSession, PendingT
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FINAL_EPOCH, INITIAL_EPOCH, FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.cluster.replicas import Replicas

_TOPIC_IDS = 13


class LeaderFetchHandler:
    """The fetch sessions of followers. Owner: the event loop."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._sessions: dict[int, FollowerSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    @property
    def waiting(self) -> int:
        return sum(session.is_waiting for session in self._sessions.values())

    def followers(self, since: float) -> set[int]:
        """Return the brokers that follow a partition led here and have fetched since then (monotonic time)."""
        return {
            session.replica_id
            for session in self._sessions.values()
            if session.asked_at >= since and session.follows_something
        }

    def handle(
        self,
        request: FetchRequest,
        version: int,
        replica_id: int,
        connection: FollowerConnection,
        respond_later: Callable[[], PendingT],
    ) -> FetchResponse | PendingT:
        try:
            session = self._session(request, connection, replica_id, by_id=version >= _TOPIC_IDS)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        return session.fetch(request, respond_later)

    def _session(
        self, request: FetchRequest, connection: FollowerConnection, replica_id: int, by_id: bool
    ) -> FollowerSession:
        if request.session_epoch == FINAL_EPOCH:
            return FollowerSession(self._replicas, 0, connection, replica_id, by_id)
        if request.session_epoch == INITIAL_EPOCH:
            self._close(request.session_id)
            while (session_id := random.randint(1, 2**31 - 1)) in self._sessions:
                pass
            session = FollowerSession(self._replicas, session_id, connection, replica_id, by_id)
            self._sessions[session_id] = session
            connection.closing[session] = lambda: self._close(session_id)
            return session
        found = self._sessions.get(request.session_id)
        if found is None or found.connection is not connection:
            raise KafkaError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if found.epoch != request.session_epoch:
            raise KafkaError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        return found

    def _close(self, session_id: int) -> None:
        session = self._sessions.pop(session_id, None)
        if session is not None:
            session.connection.closing.pop(session, None)
            session.close()
