"""Transactions: begin them, add partitions, end and describe them, through their coordinators.

One process may begin a transaction and another end it: only transactional id, producer id and epoch are needed. The
client uses the protocol from before KIP-890, in which ending a transaction leaves the epoch unchanged. Repeating the
end of a transaction therefore gets the same answer.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from typing import NamedTuple, TypeVar

from ottla.client.cluster import Cluster, CoordinatorType, TopicPartition
from ottla.client.connection import Connection
from ottla.client.errors import ClientError, Unreachable, error_code
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import transactions as messages

T = TypeVar("T")

ONGOING = "Ongoing"

#: Later versions are for brokers only.
_LAST_ADD_PARTITIONS = 3
#: Since version 5 every EndTxn raises the epoch.
_LAST_END_TXN = 4
#: Requests sent before the first response is read.
_AT_ONCE = 100
#: Ending the previous transaction of the id takes milliseconds, so the first retries come soon.
_SHORT_WAIT = 0.005


class Transaction(NamedTuple):
    """Data needed to write in a transaction and to end it."""

    transactional_id: str
    producer_id: int
    producer_epoch: int


class TransactionDescription(NamedTuple):
    state: str
    producer_id: int
    producer_epoch: int
    start_ms: int  # by the coordinator's clock; -1 if none is open
    timeout_ms: int


class TransactionClient:
    """Used by one thread. No other request may be in flight on the cluster's connections."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._coordinators: dict[str, tuple[str, int]] = {}

    def begin(self, transactional_id: str, timeout_ms: int) -> Transaction:
        """Become the producer of this id. Fences the previous one and aborts its open transaction."""
        request = messages.InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=-1,
            producer_epoch=-1,
        )

        def ask() -> Transaction:
            answer = self._coordinator(transactional_id).request(request, messages.InitProducerIdResponse)
            code = error_code(answer.error_code)
            if code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise ClientError(
                    f"The broker allows no transaction of {timeout_ms} ms: set transaction.timeout.ms to no more "
                    "than its transaction.max.timeout.ms.",
                    code,
                )
            self._check(code, f"No transaction can be begun as '{transactional_id}'")
            return Transaction(transactional_id, answer.producer_id, answer.producer_epoch)

        return self._retrying(ask, [transactional_id])

    def add_partitions(self, transaction: Transaction, partitions: Iterable[TopicPartition]) -> None:
        """Add partitions, required before the first write to each."""
        topics = [
            messages.AddPartitionsToTxnTopic(name=topic, partitions=[each.partition for each in members])
            for topic, members in groupby(sorted(partitions), key=lambda each: each.topic)
        ]
        request = messages.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=transaction.transactional_id,
            v3_and_below_producer_id=transaction.producer_id,
            v3_and_below_producer_epoch=transaction.producer_epoch,
            v3_and_below_topics=topics,
        )

        def ask() -> None:
            answer = self._coordinator(transaction.transactional_id).request(
                request, messages.AddPartitionsToTxnResponse, max_version=_LAST_ADD_PARTITIONS
            )
            codes = [
                error_code(part.partition_error_code)
                for topic in answer.results_by_topic_v3_and_below
                for part in topic.results_by_partition
            ]
            # If one is refused, none is added, and the others return OPERATION_NOT_ATTEMPTED.
            reasons = [
                code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)
            ]
            for code in reasons:
                self._check(code, f"The transaction of '{transaction.transactional_id}' cannot go on")

        self._retrying(ask, [transaction.transactional_id])

    def end(
        self, transactions: Iterable[Transaction], *, commit: bool, seconds: float | None = None
    ) -> dict[Transaction, ErrorCode]:
        """End transactions and return their final error codes. Retriable errors are retried for `seconds`."""
        outcome: dict[Transaction, ErrorCode] = {}
        left = list(dict.fromkeys(transactions))
        last: list[ClientError] = []

        def ask() -> None:
            last.clear()
            for connection, members in self._by_coordinator(left):
                try:
                    self._end_on(connection, members, commit, outcome)
                except Unreachable as error:
                    last.append(error)
            left[:] = [each for each in left if each not in outcome]
            if left:
                busy = ClientError(
                    f"The coordinator has not ended the transaction of '{left[0].transactional_id}' in time.",
                    ErrorCode.CONCURRENT_TRANSACTIONS,
                )
                raise last[0] if last else busy

        if left:
            self._retrying(ask, [each.transactional_id for each in left], seconds)
        return outcome

    def _end_on(
        self,
        connection: Connection,
        transactions: Sequence[Transaction],
        commit: bool,
        outcome: dict[Transaction, ErrorCode],
    ) -> None:
        for start in range(0, len(transactions), _AT_ONCE):
            some = transactions[start : start + _AT_ONCE]
            sent = [
                connection.send(
                    messages.EndTxnRequest(
                        transactional_id=each.transactional_id,
                        producer_id=each.producer_id,
                        producer_epoch=each.producer_epoch,
                        committed=commit,
                    ),
                    messages.EndTxnResponse,
                    max_version=_LAST_END_TXN,
                )
                for each in some
            ]
            for each, request in zip(some, sent, strict=True):
                code = error_code(connection.receive(request).error_code)
                if not code.retriable:
                    outcome[each] = code
                elif code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    self._coordinators.pop(each.transactional_id, None)

    def describe(self, transactional_ids: Iterable[str]) -> dict[str, TransactionDescription]:
        """Describe transactions. Ids unknown to the coordinators are omitted."""
        wanted = list(transactional_ids)
        found: dict[str, TransactionDescription] = {}

        def ask() -> None:
            found.clear()
            for connection, ids in self._ids_by_coordinator(wanted):
                request = messages.DescribeTransactionsRequest(transactional_ids=ids)
                for each in connection.request(
                    request, messages.DescribeTransactionsResponse
                ).transaction_states:
                    code = error_code(each.error_code)
                    if code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                        continue
                    self._check(code, f"The transaction of '{each.transactional_id}' cannot be described")
                    found[each.transactional_id] = TransactionDescription(
                        each.transaction_state,
                        each.producer_id,
                        each.producer_epoch,
                        each.transaction_start_time_ms,
                        each.transaction_timeout_ms,
                    )

        if wanted:
            self._retrying(ask, wanted)
        return found

    def open_ids(self, prefix: str) -> list[str]:
        request = messages.ListTransactionsRequest(state_filters=[ONGOING], producer_id_filters=[])

        def ask() -> list[str]:
            found: set[str] = set()
            for connection in self._cluster.connections():
                answer = connection.request(request, messages.ListTransactionsResponse)
                self._check(error_code(answer.error_code), "Open transactions cannot be listed")
                found.update(each.transactional_id for each in answer.transaction_states)
            return sorted(each for each in found if each.startswith(prefix))

        return self._retrying(ask, [])

    # Coordinators

    def _coordinator(self, transactional_id: str) -> Connection:
        self._find([transactional_id])
        return self._cluster.connection(self._coordinators[transactional_id])

    def _ids_by_coordinator(self, ids: list[str]) -> list[tuple[Connection, list[str]]]:
        self._find(ids)
        groups: dict[tuple[str, int], list[str]] = {}
        for each in ids:
            groups.setdefault(self._coordinators[each], []).append(each)
        return [(self._cluster.connection(address), members) for address, members in groups.items()]

    def _by_coordinator(self, transactions: list[Transaction]) -> list[tuple[Connection, list[Transaction]]]:
        by_id = {each.transactional_id: each for each in transactions}
        return [
            (connection, [by_id[each] for each in ids])
            for connection, ids in self._ids_by_coordinator(list(by_id))
        ]

    def _find(self, ids: Iterable[str]) -> None:
        unknown = [each for each in ids if each not in self._coordinators]
        if unknown:
            found = self._cluster.coordinators(CoordinatorType.TRANSACTION, unknown)
            self._coordinators |= {each: node.address for each, node in found.items()}

    def _check(self, code: ErrorCode, what: str) -> None:
        if code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
            raise ClientError(f"{what}: not authorized for that transactional id.", code)
        if code != ErrorCode.NONE:
            raise ClientError(f"{what}: {code.name}.", code)

    def _retrying(self, call: Callable[[], T], ids: Sequence[str], seconds: float | None = None) -> T:
        settings = self._cluster.settings
        deadline = time.monotonic() + (settings.api_timeout if seconds is None else seconds)
        wait = _SHORT_WAIT
        while True:
            try:
                return call()
            except ClientError as error:
                if not error.is_retriable or time.monotonic() > deadline:
                    raise
                if error.code != ErrorCode.CONCURRENT_TRANSACTIONS:
                    wait = settings.retry_backoff
                    for each in ids:
                        self._coordinators.pop(each, None)
            time.sleep(wait)
            wait = min(wait * 2, settings.retry_backoff)
