"""Share sessions: partitions fetched by a member of a share group, and its request epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.broker.network.connection import Connection

OPEN_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 2**31 - 1

SharedPartition = tuple[bytes, int]  # topic id and index


class ShareSession:
    """Session of one member, bound to its connection."""

    __slots__ = ("connection", "epoch", "partitions")

    def __init__(self, connection: Connection) -> None:
        self.connection = connection
        self.epoch = 1
        self.partitions: dict[SharedPartition, None] = {}

    def change(self, added: Iterable[SharedPartition], forgotten: Iterable[SharedPartition]) -> None:
        for partition in added:
            self.partitions[partition] = None
        for partition in forgotten:
            self.partitions.pop(partition, None)

    def rotate(self, served: Iterable[SharedPartition]) -> None:
        for partition in served:
            if partition in self.partitions:
                del self.partitions[partition]
                self.partitions[partition] = None


class ShareSessions:
    """Sessions by group and member. Owner: the event loop."""

    def __init__(
        self,
        limit: int,
        on_end: Callable[[str, str, ShareSession], None],
        on_group_end: Callable[[str], None],
    ) -> None:
        self._limit = limit
        self._on_end = on_end
        self._on_group_end = on_group_end
        self._of_group: Counter[str] = Counter()
        self._sessions: dict[tuple[str, str], ShareSession] = {}

    def open(self, group_id: str, member_id: str, connection: Connection) -> ShareSession:
        self.end(group_id, member_id)
        if len(self._sessions) >= self._limit:
            raise KafkaError(ErrorCode.SHARE_SESSION_LIMIT_REACHED)
        session = self._sessions[group_id, member_id] = ShareSession(connection)
        self._of_group[group_id] += 1
        connection.closing[group_id, member_id] = lambda: self.end(group_id, member_id)
        return session

    def next(self, group_id: str, member_id: str, epoch: int) -> ShareSession:
        """Return the session for its next request. Raises KafkaError if missing or out of sequence."""
        session = self._sessions.get((group_id, member_id))
        if session is None:
            raise KafkaError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise KafkaError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = 1 if epoch == _LAST_EPOCH else epoch + 1
        return session

    def end(self, group_id: str, member_id: str) -> None:
        session = self._sessions.pop((group_id, member_id), None)
        if session is not None:
            session.connection.closing.pop((group_id, member_id), None)
            self._on_end(group_id, member_id, session)
            self._of_group[group_id] -= 1
            if not self._of_group[group_id]:
                del self._of_group[group_id]
                self._on_group_end(group_id)
