"""WriteShareGroupState, key 85: store the delivery state of records (KIP-932).

Behaviour
- Sent by the leaders of share-partitions. The response waits until every in-sync replica has the state.
- A leader of an earlier epoch gets FENCED_LEADER_EPOCH. A leader that has not read the state since its last reset gets
  FENCED_STATE_EPOCH. INVALID_REQUEST for state that was never initialized.

Version notes
- 1 the number of finished records from the start offset on (KIP-1226).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.share.state_persister import WRITE, serve
from ottla.protocol.messages.share_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from ottla.security.acls import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: WriteShareGroupStateResponse = await serve(broker, WRITE, request)
    return response
