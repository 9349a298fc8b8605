"""ReadShareGroupStateSummary, key 87: where share groups stand in partitions (KIP-932).

Behaviour
- As ReadShareGroupState, but without records, and it fences nobody: group coordinators ask to describe a group.
- The start offset of what was never initialized is -1.

Version notes
- 1 how many records from the start offset on are done (KIP-1226).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.split import Split
from ottla.broker.share.state_handlers import SUMMARIZE, serve
from ottla.protocol.messages.share_state import (
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
)
from ottla.security.rights import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, context: RequestContext
) -> ReadShareGroupStateSummaryResponse:
    context.require(CLUSTER_ACTION)
    response: ReadShareGroupStateSummaryResponse = await serve(broker, SUMMARIZE, request)
    return response
