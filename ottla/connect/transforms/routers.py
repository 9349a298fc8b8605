"""RegexRouter and TimestampRouter: change the topic of a record."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.connect.config.config_def import ConfigDef, ConfigError, ConfigType, Importance
from ottla.connect.config.validators import regex
from ottla.connect.data.columns import MixedRecordsError
from ottla.connect.data.java_dates import BadPattern, DateFormat
from ottla.connect.data.java_regex import InvalidPattern, compile_java, replacement
from ottla.connect.data.record import ConnectRecord
from ottla.connect.errors import DataError
from ottla.connect.transforms.base import C, Transform


class RegexRouter(Transform):
    config_def = (
        ConfigDef()
        .define(
            "regex",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="Java regular expression that must match the whole topic name.",
            validator=regex,
        )
        .define(
            "replacement",
            ConfigType.STRING,
            importance=Importance.HIGH,
            documentation="New topic; $1 is the first group of the regular expression.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        self._pattern = compile_java(self.settings["regex"])
        self._replacement: str = self.settings["replacement"]
        self._known: dict[str, str] = {}

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        topic = record.topic
        routed = self._known.get(topic)
        if routed is None:
            if len(self._known) > 1000:
                self._known.clear()
            routed = self._known[topic] = self._routed(topic)
        return record if routed is topic else record.replaced(topic=routed)

    def apply_columns(self, columns: C) -> C:
        return columns.replaced(topic=self._routed(columns.topic))

    def _routed(self, topic: str) -> str:
        if self._pattern.fullmatch(topic) is None:
            return topic
        found = self._pattern.search(topic)
        assert found is not None
        try:
            return topic[: found.start()] + replacement(self._replacement, found) + topic[found.end() :]
        except InvalidPattern as error:
            raise DataError(str(error)) from None


class TimestampRouter(Transform):
    config_def = (
        ConfigDef()
        .define(
            "topic.format",
            ConfigType.STRING,
            "${topic}-${timestamp}",
            Importance.HIGH,
            "New topic; ${topic} is the old topic and ${timestamp} the record's time.",
        )
        .define(
            "timestamp.format",
            ConfigType.STRING,
            "yyyyMMdd",
            Importance.HIGH,
            "Format of the time (in UTC), as in Java's SimpleDateFormat.",
        )
    )

    def configure(self, config: Mapping[str, str]) -> None:
        super().configure(config)
        try:
            self._format = DateFormat(self.settings["timestamp.format"])
        except BadPattern as error:
            raise ConfigError(str(error)) from None
        self._topic_format: str = self.settings["topic.format"]

    def apply(self, record: ConnectRecord) -> ConnectRecord:
        if record.timestamp is None:
            raise DataError(f"Timestamp missing on record: {record}")
        return record.replaced(topic=self._routed(record.topic, record.timestamp))

    def apply_columns(self, columns: C) -> C:
        topics = {self._routed(columns.topic, each) for each in set(columns.timestamps)}
        if len(topics) > 1:
            raise MixedRecordsError
        return columns.replaced(topic=topics.pop())

    def _routed(self, topic: str, timestamp: int | None) -> str:
        if timestamp is None:
            raise DataError("Timestamp missing")
        written = self._format.format(timestamp)
        return self._topic_format.replace("${topic}", topic).replace("${timestamp}", written)
