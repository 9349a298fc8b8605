"""ListPartitionReassignments, key 46: replicas that are on the move.

Behaviour
- Reassignments are granted or refused at once, so none is ever under way and the list is empty.

Version notes
- 0 the only one, flexible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext


def handle(
    broker: Broker, request: ListPartitionReassignmentsRequest, context: RequestContext
) -> ListPartitionReassignmentsResponse:
    return ListPartitionReassignmentsResponse(error_message=None)
