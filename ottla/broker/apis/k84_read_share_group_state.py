"""ReadShareGroupState, key 84: return the state of share-partitions to their leaders (KIP-932).

Behaviour
- A leader epoch above all earlier ones is stored: from then on earlier leaders get FENCED_LEADER_EPOCH.
- The response waits until every in-sync replica has the state. INVALID_REQUEST for state that was never initialized.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.share.state_persister import READ, serve
from ottla.protocol.messages.share_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from ottla.security.acls import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: ReadShareGroupStateResponse = await serve(broker, READ, request)
    return response
