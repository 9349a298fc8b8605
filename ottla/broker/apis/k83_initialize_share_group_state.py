"""InitializeShareGroupState, key 83: initialize the state of share-partitions (KIP-932).

Behaviour
- Group coordinators send it to the leader of the `__share_group_state` partition for a share-partition.
- The response waits until every in-sync replica has the state.
- Earlier state is discarded, unless it has a later state epoch (FENCED_STATE_EPOCH). Repeating the request in the same
  epoch without a start offset changes nothing.

Version notes
- 0 is the only version.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.broker.share.state_persister import INITIALIZE, serve
from ottla.protocol.messages.share_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
)
from ottla.security.acls import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: InitializeShareGroupStateRequest, context: RequestContext
) -> InitializeShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: InitializeShareGroupStateResponse = await serve(broker, INITIALIZE, request)
    return response
