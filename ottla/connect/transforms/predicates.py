"""Kafka's predicates: HasHeaderKey, RecordIsTombstone and TopicNameMatches."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, not_empty
from ottla.connect.config.validators import all_of, regex
from ottla.connect.data.columns import Columns, MixedRecordsError
from ottla.connect.data.java_regex import compile_java
from ottla.connect.data.record import ConnectRecord
from ottla.connect.transforms.base import Predicate


class HasHeaderKey(Predicate):
    config_def = ConfigDef().define(
        "name",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="Name of a header in the record.",
        validator=not_empty,
    )

    def test(self, record: ConnectRecord) -> bool:
        name = self.settings["name"]
        return any(each.key == name for each in record.headers)

    def test_columns(self, columns: Columns) -> bool:
        return False  # columns have no headers


class RecordIsTombstone(Predicate):
    def test(self, record: ConnectRecord) -> bool:
        return record.value is None

    def test_columns(self, columns: Columns) -> bool:
        first = columns.values[0] is None
        if any((each is None) != first for each in columns.values):
            raise MixedRecordsError
        return first


class TopicNameMatches(Predicate):
    config_def = ConfigDef().define(
        "pattern",
        ConfigType.STRING,
        importance=Importance.MEDIUM,
        documentation="Java regular expression for whole topic names.",
        validator=all_of(not_empty, regex),
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["pattern"])
        self._known: dict[str, bool] = {}

    def test(self, record: ConnectRecord) -> bool:
        return self._matches(record.topic)

    def test_columns(self, columns: Columns) -> bool:
        return self._matches(columns.topic)

    def _matches(self, topic: str) -> bool:
        found = self._known.get(topic)
        if found is None:
            if len(self._known) > 1000:
                self._known.clear()
            found = self._known[topic] = self._pattern.fullmatch(topic) is not None
        return found
