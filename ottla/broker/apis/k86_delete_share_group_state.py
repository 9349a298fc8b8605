"""DeleteShareGroupState, key 86: delete the state of share-partitions (KIP-932).

Behaviour
- Group coordinators send it when a group or its offsets are deleted. Missing state counts as deleted.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.share.state_persister import DELETE, serve
from ottla.protocol.messages.share_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
from ottla.security.acls import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: DeleteShareGroupStateRequest, context: RequestContext
) -> DeleteShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: DeleteShareGroupStateResponse = await serve(broker, DELETE, request)
    return response
