"""Filter: drops all records, or those selected by a predicate."""

from __future__ import annotations

from ottla.connect.data.columns import MixedRecordsError
from ottla.connect.data.record import ConnectRecord
from ottla.connect.transforms.base import C, Transform


class Filter(Transform):
    def apply(self, record: ConnectRecord) -> None:
        return None

    def apply_columns(self, columns: C) -> C:
        """Decline, so that records are dropped one by one. Columns outside the predicate stay on the fast path."""
        raise MixedRecordsError
