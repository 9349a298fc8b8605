"""The leader's side of replication: fetches of followers, which see the log to its very end.

A follower has one session on one connection; `ottla.cluster.replication.follower_fetcher`
says which rule both sides keep.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from ottla.broker.network.connection import Connection
from ottla.broker.network.pending import PendingResponse
from ottla.broker.replication.follower_session import ReplicaSession
from ottla.broker.requests.fetch_sessions import INITIAL, SESSIONLESS
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.fetch import FetchRequest, FetchResponse

if TYPE_CHECKING:
    from ottla.broker.network.dispatch import RequestContext
    from ottla.cluster.replicas import Replicas

_TOPIC_IDS = 13


class ReplicaFetches:
    """The sessions of followers with this broker. Owner: the event loop."""

    def __init__(self, replicas: Replicas) -> None:
        self._replicas = replicas
        self._sessions: dict[int, ReplicaSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def followers(self, since: float) -> set[int]:
        """Brokers that follow something here, and have asked for it since then (of the monotonic clock)."""
        return {
            session.replica_id
            for session in self._sessions.values()
            if session.asked_at >= since and session.follows_something
        }

    def handle(
        self, request: FetchRequest, context: RequestContext, replica_id: int
    ) -> FetchResponse | PendingResponse:
        context.cost = None  # quotas are for clients
        by_id = context.version >= _TOPIC_IDS
        try:
            session = self._session(request, context.connection, replica_id, by_id)
        except KafkaError as error:
            return FetchResponse(error_code=error.code)
        return session.fetch(request, context)

    def _session(
        self, request: FetchRequest, connection: Connection, replica_id: int, by_id: bool
    ) -> ReplicaSession:
        if request.session_epoch == SESSIONLESS:
            return ReplicaSession(self._replicas, 0, connection, replica_id, by_id)
        if request.session_epoch == INITIAL:
            self._close(request.session_id)
            while (session_id := random.randint(1, 2**31 - 1)) in self._sessions:
                pass
            session = ReplicaSession(self._replicas, session_id, connection, replica_id, by_id)
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
