"""ShareFetch, key 78: acquire records, and acknowledge earlier ones (KIP-932).

Behaviour
- Records are locked for the member until it acknowledges them or the lock times out. The broker sends whole batches,
  and `acquired_records` lists the member's records in them.
- Acknowledgements are applied first, all or none per partition, and written before the response.
- Without available records the request waits. An append, a released lock or a loaded share-partition wakes it. There is
  no polling.
- A broker that no longer leads a partition names the current leader. The new leader loads the state, without locks.
- Batches are locked as a whole, possibly exceeding `max_records`, unless the acquire mode is `record_limit`. Records
  locked together in batches of `batch_size` stay together when they are released. No records are returned if
  `max_records` or `max_bytes` is 0.
- A record that was returned too often is delivered with ever fewer others, the last time alone (`Acquisition`).
- Partitions without records and errors are omitted, even in the first response of a session.
- A session lives as long as its connection; its end releases its locks.

Version notes
- 1 first version; 2 lock renewal (KIP-1222) and the acquire mode (KIP-1206).
"""

from __future__ import annotations

from collections.abc import Awaitable

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import PendingResponse, RequestContext
from ottla.broker.share.share_fetch import ShareFetch
from ottla.broker.share.share_sessions import FINAL_EPOCH, OPEN_EPOCH, Outcomes, acknowledge, named
from ottla.protocol.codec import Response
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.share_fetch import ShareFetchRequest
from ottla.security.acls import READ_GROUP


def handle(
    broker: Broker, request: ShareFetchRequest, context: RequestContext
) -> Response | PendingResponse | Awaitable[Response | PendingResponse]:
    context.require(READ_GROUP, request.group_id or "")
    group_id, member_id = named(request.group_id, request.member_id)
    said = {
        (topic.topic_id, partition.partition_index): partition.acknowledgement_batches
        for topic in request.topics
        for partition in topic.partitions
    }
    sessions = broker.sharing.sessions
    if request.share_session_epoch == OPEN_EPOCH:
        if any(said.values()):
            raise KafkaError(ErrorCode.INVALID_REQUEST)
        session = sessions.open(group_id, member_id, context.connection)
    else:
        session = sessions.next(group_id, member_id, request.share_session_epoch)
    if request.share_session_epoch != FINAL_EPOCH:
        forgotten = [(t.topic_id, p) for t in request.forgotten_topics_data for p in t.partitions]
        session.change(said, forgotten)
    fetch = ShareFetch(broker, request, context, session, group_id, member_id)
    outcomes = acknowledge(
        broker,
        context,
        group_id,
        member_id,
        {partition: batches for partition, batches in said.items() if batches},
        may_renew=context.version >= 2,
    )
    if isinstance(outcomes, dict):
        return fetch.proceed(outcomes)
    return _proceed(fetch, outcomes)


async def _proceed(fetch: ShareFetch, pending: Awaitable[Outcomes]) -> Response | PendingResponse:
    return fetch.proceed(await pending)
