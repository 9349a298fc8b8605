"""ListTransactions, key 66: list the transactional ids coordinated by this broker.

Behaviour
- Filters select by state, producer id, duration and pattern. The response returns unknown state names.
- A pattern must match the whole id. Matching takes linear time, as in RE2; an invalid pattern is
  INVALID_REGULAR_EXPRESSION.

Version notes
- 0 first version, flexible; 1 duration (KIP-994); 2 pattern (KIP-1152).
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.slow_lane import SLICE, Work, distinct
from ottla.coordinator.groups.consumer.reconciliation import TopicRegex
from ottla.coordinator.transactions.coordinator import states_named
from ottla.coordinator.transactions.transaction import ONGOING, TransactionState
from ottla.protocol.messages.transactions import (
    ListedTransaction,
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.security.acls import DESCRIBE_TRANSACTIONAL_ID


def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> Work[ListTransactionsResponse]:
    names = yield from distinct(request.state_filters)
    states: set[TransactionState] = set()
    unknown: list[str] = []
    while some := [names.pop() for _ in range(min(len(names), SLICE))]:
        known, others = states_named(some)
        states |= known
        unknown += others
        yield None
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    if unknown and not states:
        return response
    text = request.transactional_id_pattern
    pattern = TopicRegex(text) if text else None
    producers = yield from distinct(request.producer_id_filters)
    now_ms = broker.now_ms()
    for count, transaction in enumerate(list(broker.transactions.list_transactions()), 1):
        if not count % SLICE:
            yield None
        if states and transaction.state not in states:
            continue
        if producers and transaction.producer_id not in producers:
            continue
        if request.duration_filter >= 0:
            open_for = now_ms - transaction.start_ms if _is_open(transaction.state) else -1
            if open_for <= request.duration_filter:
                continue
        if not context.allows(DESCRIBE_TRANSACTIONAL_ID, transaction.transactional_id):
            continue
        if pattern is not None and not pattern.matches(transaction.transactional_id):
            continue
        response.transaction_states.append(
            ListedTransaction(
                transactional_id=transaction.transactional_id,
                producer_id=transaction.producer_id,
                transaction_state=transaction.state.title,
            )
        )
    return response


def _is_open(state: TransactionState) -> bool:
    return state in (ONGOING, TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
