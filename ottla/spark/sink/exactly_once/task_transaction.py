"""Transaction of one task: begun with its first row, and left open for the driver."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from typing import NamedTuple

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction, TransactionClient
from ottla.spark.source.data_loss import log

ID_PREFIX = "ottla-spark"
#: Keep this short, so that a failed task reports soon.
_ABORT_SECONDS = 5.0


class Attempt(NamedTuple):
    """One execution of a micro-batch or a save, for which a task writes."""

    query: str
    generation: int
    batch: int


class _Ids:
    """Transactional ids of this process: unique per attempt, even if Spark runs a task twice.

    Transactions stay open until the driver ends them. The next batch reuses the ids, because brokers remember every id
    for a week.
    """

    def __init__(self) -> None:
        self._process = 0
        self._name = ""
        self._batches: dict[tuple[str, int], tuple[int, int]] = {}

    def next(self, attempt: Attempt) -> str:
        if self._process != os.getpid():  # also true after a fork
            self._process = os.getpid()
            self._name = uuid.uuid4().hex[:12]
            self._batches = {}
        which = (attempt.query, attempt.generation)
        batch, count = self._batches.get(which, (attempt.batch, 0))
        if batch != attempt.batch:
            count = 0
        self._batches[which] = (attempt.batch, count + 1)
        return f"{id_prefix(attempt.query)}{attempt.generation}-{self._name}-{count}"


_ids = _Ids()


def id_prefix(query: str) -> str:
    return f"{ID_PREFIX}-{query}-"


def generation_of(transactional_id: str, query: str) -> int:
    return int(transactional_id.removeprefix(id_prefix(query)).split("-")[0])


class TaskTransaction:
    """Owner: the task until it ends, then the driver, which receives the transaction in the task's message."""

    def __init__(self, cluster: Cluster, attempt: Attempt, timeout_ms: int) -> None:
        self._client = TransactionClient(cluster)
        self._attempt = attempt
        self._timeout_ms = timeout_ms
        self._partitions: set[TopicPartition] = set()
        self.transaction: Transaction | None = None

    def begin(self) -> Transaction:
        if self.transaction is None:
            self.transaction = self._client.begin(_ids.next(self._attempt), self._timeout_ms)
        return self.transaction

    def without(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [each for each in partitions if each not in self._partitions]

    def add(self, partitions: list[TopicPartition]) -> None:
        self._client.add_partitions(self.begin(), partitions)
        self._partitions.update(partitions)

    def abort(self) -> None:
        """Abort after a failure, so that consumers need not wait for the timeout. If this fails too, they wait."""
        if self.transaction is None:
            return
        try:
            self._client.end([self.transaction], commit=False, seconds=_ABORT_SECONDS)
        except ClientError as error:
            log.warning("A transaction stays open until it times out: %s", error.message)
