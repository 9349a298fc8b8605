"""Share sessions: partitions fetched by a member of a share group, and its acknowledgements."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from ottla.broker.share.live_share_partition import LiveSharePartition
from ottla.coordinator.share.share_partition import Acknowledgement, check_acknowledgements
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.security.acls import READ_TOPIC

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.network.connection import Connection
    from ottla.broker.network.request_context import RequestContext

# Share sessions: partitions fetched by a member of a share group, and its request epoch.

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


# Acknowledgement of records, common to ShareFetch and ShareAcknowledge.

Outcomes = dict[SharedPartition, KafkaError | None]


class _Batch(Protocol):
    first_offset: int
    last_offset: int
    acknowledge_types: list[int]


def named(group_id: str | None, member_id: str | None) -> tuple[str, str]:
    if not group_id or not member_id:
        raise KafkaError(ErrorCode.INVALID_REQUEST)
    return group_id, member_id


def may_read(broker: Broker, context: RequestContext, topic_id: bytes) -> None:
    """Raise KafkaError if the client may not read the topic. Unknown ids are rejected elsewhere."""
    topic = broker.image.topics_by_id.get(topic_id)
    if topic is not None:
        context.require(READ_TOPIC, topic.name)


def acknowledge(
    broker: Broker,
    context: RequestContext,
    group_id: str,
    member_id: str,
    said: Mapping[SharedPartition, Sequence[_Batch]],
    *,
    may_renew: bool,
) -> Outcomes | Awaitable[Outcomes]:
    """Apply a member's acknowledgements and return the errors by partition.

    All partitions start together. Returns an awaitable if anything has yet to be written.
    """
    outcomes: Outcomes = {}
    pending: dict[SharedPartition, asyncio.Future[None]] = {}
    for partition, batches in said.items():
        try:
            may_read(broker, context, partition[0])
            future = _begin(broker, group_id, member_id, partition, batches, may_renew)
        except KafkaError as error:
            outcomes[partition] = error
        else:
            outcomes[partition] = None
            if future is not None:
                pending[partition] = future
    return _wait(outcomes, pending) if pending else outcomes


def _begin(
    broker: Broker,
    group_id: str,
    member_id: str,
    partition: SharedPartition,
    batches: Sequence[_Batch],
    may_renew: bool,
) -> asyncio.Future[None] | None:
    said = [Acknowledgement(b.first_offset, b.last_offset, b.acknowledge_types) for b in batches]
    check_acknowledgements(said, may_renew=may_renew)
    live = broker.sharing.partitions.get(group_id, *partition)
    if not isinstance(live, LiveSharePartition):
        # The state is still loading, so no member has acquired records from this leader.
        raise KafkaError(
            ErrorCode.INVALID_RECORD_STATE, "The record cannot be acknowledged. It is not acquired."
        )
    return live.acknowledge(member_id, said)


async def _wait(outcomes: Outcomes, pending: dict[SharedPartition, asyncio.Future[None]]) -> Outcomes:
    for partition, future in pending.items():
        try:
            await future
        except KafkaError as error:
            outcomes[partition] = error
    return outcomes
