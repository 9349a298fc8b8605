"""ReadShareGroupStateSummary, key 87: return the start offsets of share groups (KIP-932).

Behaviour
- Like ReadShareGroupState, but without batches and without fencing: group coordinators use it to describe a group.
- The start offset of uninitialized state is -1.

Version notes
- 1 the number of finished records from the start offset on (KIP-1226).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.share.state_persister import SUMMARIZE, serve
from ottla.protocol.messages.share_state import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from ottla.security.acls import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    context.require(CLUSTER_ACTION)
    response: ReadShareGroupStateSummaryResponse = await serve(broker, SUMMARIZE, request)
    return response
