"""Filter: drops records. With a predicate, those that it says."""

from __future__ import annotations

from ottla.spark.connect.data.record import ConnectRecord
from ottla.spark.connect.transforms.base import Transform


class Filter(Transform):
    def apply(self, record: ConnectRecord) -> None:
        return None
