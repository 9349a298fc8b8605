"""Filter: drops records. With a predicate, those that it says."""

from __future__ import annotations

from ottla.connect.data.columns import MixedRecordsError
from ottla.connect.data.record import ConnectRecord
from ottla.connect.transforms.base import C, Transform


class Filter(Transform):
    def apply(self, record: ConnectRecord) -> None:
        return None

    def apply_columns(self, columns: C) -> C:
        """Whole columns are not dropped: this is for those that a predicate leaves alone."""
        raise MixedRecordsError
