"""DeleteShareGroupState, key 86: forget share-partitions (KIP-932).

Behaviour
- Sent by group coordinators when a group is deleted, or its offsets. What is not known is deleted already.

Version notes
- 0 is the only one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.split import Split
from ottla.broker.share.state_handlers import DELETE, serve
from ottla.protocol.messages.share_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from ottla.security.rights import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: DeleteShareGroupStateResponse = await serve(broker, DELETE, request)
    return response
