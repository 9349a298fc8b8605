"""Wraps transforms and predicates of jars in Python classes."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.data.record import ConnectRecord
from ottla.connect.java.data import to_java_map
from ottla.connect.java.plugin_object import JavaObject
from ottla.connect.transforms.base import Predicate, Transform

_PACKAGE = "org.apache.kafka.connect.transforms"


class _RecordPlugin(JavaObject):
    def configure(self, config: Mapping[str, str]) -> None:
        """Configure the Java object with all texts, as Kafka does."""
        self._configure(to_java_map(config))


class JavaTransform(_RecordPlugin, Transform):
    interface = f"{_PACKAGE}.Transformation"

    def apply(self, record: ConnectRecord) -> ConnectRecord | None:
        applied = self._call(self._java.apply, self._crossing.record_to_java(record))
        return None if applied is None else record.replaced(**self._crossing.fields(applied))


class JavaPredicate(_RecordPlugin, Predicate):
    interface = f"{_PACKAGE}.predicates.Predicate"

    def test(self, record: ConnectRecord) -> bool:
        return bool(self._call(self._java.test, self._crossing.record_to_java(record)))
