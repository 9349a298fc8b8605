"""The transactions of a source task: records and source offsets become visible together."""

from __future__ import annotations

import time
from collections.abc import Iterable

from ottla.client.cluster import Cluster, TopicPartition
from ottla.client.errors import ClientError
from ottla.client.transactions import Transaction, TransactionClient
from ottla.connect.errors import ConnectError
from ottla.protocol.errors import ErrorCode

#: Another producer uses our transactional id, or the coordinator has aborted our transaction.
FENCED = frozenset(
    {ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING}
)
_ABORT_SECONDS = 5.0


class TimedOut(ConnectError):
    """The coordinator aborted a transaction that exceeded its timeout. The task starts over."""


class SourceTransactions:
    """One producer with consecutive transactions. A later producer with the same id fences it."""

    def __init__(self, cluster: Cluster, transactional_id: str, timeout_ms: int) -> None:
        self._client = TransactionClient(cluster)
        self._id = transactional_id
        self._timeout_ms = timeout_ms
        self._producer: Transaction | None = None
        self._partitions: set[TopicPartition] = set()
        self._began_at = 0.0

    def fence(self) -> None:
        """Become the only producer of the id.

        This aborts an earlier producer's open transaction and completes a committed one.
        """
        self._producer = self._client.begin(self._id, self._timeout_ms)

    # The Producer's interface

    def begin(self) -> Transaction:
        if self._producer is None:
            self.fence()
        assert self._producer is not None
        return self._producer

    def without(self, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        return [each for each in partitions if each not in self._partitions]

    def add(self, partitions: list[TopicPartition]) -> None:
        if not self._partitions:
            self._began_at = time.monotonic()
        self._client.add_partitions(self.begin(), partitions)
        self._partitions.update(partitions)

    # Ending a transaction

    def commit(self) -> None:
        """Commit the transaction. All written records are visible on return."""
        if not self._partitions:
            return
        producer = self.begin()
        code = self._client.end([producer], commit=True)[producer]
        if code != ErrorCode.NONE:
            raise ClientError(f"The transaction of '{self._id}' cannot be committed: {code.name}.", code)
        self._partitions.clear()

    def abort(self) -> None:
        """Try to abort the transaction. If this fails, the next `fence` aborts it."""
        producer, self._producer = self._producer, None
        if producer is None or not self._partitions:
            return
        self._partitions.clear()
        try:
            self._client.end([producer], commit=False, seconds=_ABORT_SECONDS)
        except ClientError:
            return

    def explained(self, error: ClientError) -> ClientError:
        """Explain a fencing error: the transaction timed out, or another worker runs the task."""
        if error.code not in FENCED:
            return error
        if self._partitions and time.monotonic() - self._began_at > self._timeout_ms / 1000:
            return TimedOut(f"The transaction of '{self._id}' was open for more than {self._timeout_ms} ms.")
        return ConnectError(
            f"Another worker has begun to run this task, as '{self._id}': only one may run it at a time.",
            error.code,
        )
