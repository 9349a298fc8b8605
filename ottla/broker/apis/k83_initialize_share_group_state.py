"""InitializeShareGroupState, key 83: begin to keep the state of share-partitions (KIP-932).

Behaviour
- Sent by group coordinators to the leader of the partition of `__share_group_state` that keeps a share-partition.
- Answered when the state is on every in-sync replica.
- What was known before is forgotten, unless it is of a later state epoch: then FENCED_STATE_EPOCH. Who asks again in
  the same epoch without a start offset changes nothing.

Version notes
- 0 is the only one.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.split import Split
from ottla.broker.share.state_handlers import INITIALIZE, serve
from ottla.protocol.messages.share_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ottla.security.rights import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: InitializeShareGroupStateResponse = await serve(broker, INITIALIZE, request)
    return response
