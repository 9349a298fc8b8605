"""WriteShareGroupState, key 85: keep what has become of records (KIP-932).

Behaviour
- Sent by the leaders of share-partitions, and answered when it is on every in-sync replica.
- A leader of an earlier epoch gets FENCED_LEADER_EPOCH, one that has not read the state since it was set anew
  FENCED_STATE_EPOCH. INVALID_REQUEST for what was never initialized.

Version notes
- 1 how many records from the start offset on are done (KIP-1226).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.dispatch import RequestContext
from ottla.broker.requests.split import Split
from ottla.broker.share.state_handlers import WRITE, serve
from ottla.protocol.messages.share_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
from ottla.security.rights import CLUSTER_ACTION

SPLIT = Split("topics.partitions", "results.partitions", size=8)  # each may write to disk


async def handle(
    broker: Broker, request: WriteShareGroupStateRequest, context: RequestContext
) -> WriteShareGroupStateResponse:
    context.require(CLUSTER_ACTION)
    response: WriteShareGroupStateResponse = await serve(broker, WRITE, request)
    return response
