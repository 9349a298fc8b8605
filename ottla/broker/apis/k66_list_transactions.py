"""ListTransactions, key 66: the transactional ids that this broker coordinates.

Behaviour
- Filters narrow down by state, by producer id, by how long a transaction has been open and by a pattern; names of
  states that do not exist are given back.
- A pattern has to match the whole id. It is a regular expression of Python, whose time to match is not bounded as that
  of RE2 is: one that repeats a group, or has more than three repetitions, is INVALID_REGULAR_EXPRESSION like one that
  cannot be read.

Version notes
- 0 the first, flexible; 1 duration (KIP-994); 2 pattern (KIP-1152).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ottla.coordinator.transaction import ONGOING, TransactionState
from ottla.coordinator.transaction_coordinator import states_named
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.list_transactions import (
    ListTransactionsRequest,
    ListTransactionsResponse,
)
from ottla.protocol.messages.list_transactions import TransactionState as ListedTransaction

if TYPE_CHECKING:
    from ottla.broker.broker import Broker
    from ottla.broker.dispatch import RequestContext

_LONGEST_PATTERN = 256
_MOST_REPETITIONS = 3
_REPETITION = re.compile(r"(?<!\\)[*+{]")
_REPEATED_GROUP = re.compile(r"(?<!\\)\)[*+{?]")


def handle(
    broker: Broker, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    states, unknown = states_named(request.state_filters)
    response = ListTransactionsResponse(unknown_state_filters=unknown)
    if unknown and not states:
        return response
    try:
        pattern = _pattern(request.transactional_id_pattern)
        transactions = broker.transactions.list_transactions()
    except KafkaError as error:
        return ListTransactionsResponse(error_code=error.code)
    producers = set(request.producer_id_filters)
    now_ms = broker.now_ms()
    for transaction in transactions:
        if states and transaction.state not in states:
            continue
        if producers and transaction.producer_id not in producers:
            continue
        if request.duration_filter >= 0:
            open_for = now_ms - transaction.start_ms if _is_open(transaction.state) else -1
            if open_for <= request.duration_filter:
                continue
        if pattern is not None and not pattern.fullmatch(transaction.transactional_id):
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


def _pattern(text: str | None) -> re.Pattern[str] | None:
    if not text:
        return None
    try:
        if (
            len(text) > _LONGEST_PATTERN
            or len(_REPETITION.findall(text)) > _MOST_REPETITIONS
            or _REPEATED_GROUP.search(text)
        ):
            raise ValueError("it could take for ever")
        return re.compile(text)
    except (re.error, ValueError, RecursionError, OverflowError):
        raise KafkaError(ErrorCode.INVALID_REGULAR_EXPRESSION) from None
