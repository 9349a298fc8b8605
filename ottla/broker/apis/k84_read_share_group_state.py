"""ReadShareGroupState, key 84: what is known of share-partitions, for their leaders (KIP-932).

Behaviour
- A leader epoch that is higher than any before is written down: from then on earlier leaders get FENCED_LEADER_EPOCH.
- What is not on every in-sync replica yet is waited for. INVALID_REQUEST for what was never initialized.

Version notes
- 0 is the only one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.split import Split
from ottla.broker.share.state_handlers import READ, serve
from ottla.protocol.messages.share_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
from ottla.security.rights import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: ReadShareGroupStateRequest, context: RequestContext
) -> ReadShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: ReadShareGroupStateResponse = await serve(broker, READ, request)
    return response
