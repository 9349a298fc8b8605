"""Transactions during compaction: aborted data, and markers still needed."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from struct import Struct

from ottla.log.segments.transaction_index import AbortedTransaction

_ABORT, _COMMIT = 0, 1
_CONTROL_KEY = Struct(">hh")


class _Aborted:
    __slots__ = ("seen", "transaction")

    def __init__(self, transaction: AbortedTransaction) -> None:
        self.transaction = transaction
        self.seen = False


class CleanedTransactions:
    """Follows transactions through one pass over the log, batch by batch.

    A marker can be dropped if the pass met no data of its transaction. Owner: one pass.
    """

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._waiting = deque(sorted(aborted, key=lambda transaction: transaction.first_offset))
        self._aborted: dict[int, _Aborted] = {}
        self._committed: set[int] = set()
        self.kept: list[AbortedTransaction] = []  # for the new segment's index

    def _reach(self, offset: int) -> None:
        waiting = self._waiting
        while waiting and waiting[0].first_offset <= offset:
            transaction = waiting.popleft()
            if transaction.last_offset >= offset:  # otherwise it ended before the start of this pass
                self._aborted.setdefault(transaction.producer_id, _Aborted(transaction))

    def is_aborted(self, producer_id: int, last_offset: int) -> bool:
        """Process a transactional batch. Return True if its records were aborted."""
        self._reach(last_offset)
        aborted = self._aborted.get(producer_id)
        if aborted is None:
            self._committed.add(producer_id)
            return False
        aborted.seen = True
        return True

    def marker_is_spent(self, producer_id: int, last_offset: int, key: bytes | None) -> bool:
        """Process a control batch (`key` is None if it was emptied). Return True if it is no longer needed."""
        self._reach(last_offset)
        if key is None:
            return True
        kind = _CONTROL_KEY.unpack_from(key)[1] if len(key) >= _CONTROL_KEY.size else -1
        if kind == _ABORT:
            aborted = self._aborted.pop(producer_id, None)
            if aborted is not None and aborted.seen:
                self.kept.append(aborted.transaction)
                return False
            return True
        if kind == _COMMIT:
            if producer_id in self._committed:
                self._committed.remove(producer_id)
                return False
            return True
        return False
