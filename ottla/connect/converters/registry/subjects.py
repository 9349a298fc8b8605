"""Confluent's subject name strategies, which choose the registry subject of a schema."""

from __future__ import annotations

from collections.abc import Callable

from ottla.connect.config.config_def import invalid
from ottla.connect.errors import DataError

#: Called with the topic, whether the schema is for a key, and the record name.
Strategy = Callable[[str, bool, str | None], str]

_PREFIX = "io.confluent.kafka.serializers.subject."


def by_topic(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{'key' if is_key else 'value'}"


def by_record(topic: str, is_key: bool, record: str | None) -> str:
    if record is None:
        raise DataError(
            f"The {'key' if is_key else 'value'} of topic {topic} has no record name, which RecordNameStrategy"
            " makes its subject of."
        )
    return record


def by_topic_and_record(topic: str, is_key: bool, record: str | None) -> str:
    return f"{topic}-{by_record(topic, is_key, record)}"


_STRATEGIES: dict[str, Strategy] = {
    "TopicNameStrategy": by_topic,
    "RecordNameStrategy": by_record,
    "TopicRecordNameStrategy": by_topic_and_record,
}


def strategy(name: str, setting: str) -> Strategy:
    found = _STRATEGIES.get(name.removeprefix(_PREFIX))
    if found is None:
        raise invalid(setting, name, f"It is none of {', '.join(_STRATEGIES)}.")
    return found
