"""DescribeTransactions, key 65: describe the state of transactional ids.

Behaviour
- The response includes every requested id; an unknown id is TRANSACTIONAL_ID_NOT_FOUND.

Version notes
- 0 is the only version, flexible.
"""

from __future__ import annotations

from ottla.broker.broker import Broker
from ottla.broker.network.request_context import RequestContext
from ottla.broker.network.split import Split
from ottla.protocol.errors import KafkaError
from ottla.protocol.messages.transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    TopicData,
    TransactionState,
)
from ottla.security.acls import DESCRIBE_TOPIC, DESCRIBE_TRANSACTIONAL_ID

SPLIT = Split("transactional_ids", "transaction_states")


def handle(
    broker: Broker, request: DescribeTransactionsRequest, context: RequestContext
) -> DescribeTransactionsResponse:
    return DescribeTransactionsResponse(
        transaction_states=[
            _describe(broker, context, transactional_id) for transactional_id in request.transactional_ids
        ]
    )


def _describe(broker: Broker, context: RequestContext, transactional_id: str) -> TransactionState:
    try:
        context.require(DESCRIBE_TRANSACTIONAL_ID, transactional_id)
        transaction = broker.transactions.describe(transactional_id)
    except KafkaError as error:
        return TransactionState(error_code=error.code, transactional_id=transactional_id)
    topics: dict[str, TopicData] = {}
    for topic, partition in sorted(transaction.partitions):
        if context.allows(DESCRIBE_TOPIC, topic, quiet=True):
            topics.setdefault(topic, TopicData(topic=topic)).partitions.append(partition)
    return TransactionState(
        transactional_id=transactional_id,
        transaction_state=transaction.state.title,
        transaction_timeout_ms=transaction.timeout_ms,
        transaction_start_time_ms=transaction.start_ms,
        producer_id=transaction.producer_id,
        producer_epoch=transaction.producer_epoch,
        topics=list(topics.values()),
    )
