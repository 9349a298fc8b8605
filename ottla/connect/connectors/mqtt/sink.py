"""The sink `io.confluent.connect.mqtt.MqttSinkConnector`, which sends each record as a message.

With `mqtt.qos` 1 or 2, the broker acknowledges a message before the record's offset is committed.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from ottla.connect.api import Config, SinkConnector, SinkTask, SinkTaskContext, TopicPartition
from ottla.connect.config.config_def import ConfigType, Importance, not_empty
from ottla.connect.connectors.mqtt.connection import MqttConnection, settings
from ottla.connect.connectors.values.plain import to_json
from ottla.connect.data.record import SinkRecord
from ottla.connect.errors import DataError, RetriableError

_FLUSH_SECONDS = 30.0


class MqttSinkConnector(SinkConnector):
    config_def = (
        settings()
        .define(
            "mqtt.topic",
            ConfigType.STRING,
            "${topic}",
            Importance.MEDIUM,
            "The MQTT topic; with ${topic} and ${key}.",
            validator=not_empty,
        )
        .define(
            "mqtt.retained.enabled",
            ConfigType.BOOLEAN,
            False,
            Importance.LOW,
            "Let the broker retain the last message.",
        )
    )
    summary = "messages to an MQTT broker"
    delivery = "at least once with mqtt.qos 1 or 2, at most once with 0"

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "task.id": str(task)} for task in range(max_tasks)]


class MqttSinkTask(SinkTask):
    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._connection: MqttConnection | None = None
        self._settings = MqttSinkConnector.config_def.parse(config)
        self._context = context
        self._sent: list[Any] = []
        id = self._settings["mqtt.client.id"] or f"connect-{config.get('name', 'mqtt')}-sink"
        self._connection = MqttConnection(
            self._settings, f"{id}-{config.get('task.id', '0')}", lambda _: None, lambda _: None
        )
        self._connection.open()

    def stop(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            connection.close()

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._connection is not None
        for record in records:
            topic = self._settings["mqtt.topic"].replace("${topic}", record.topic)
            topic = topic.replace("${key}", "" if record.key is None else _text(record.key))
            if not topic or "+" in topic or "#" in topic:
                self._context.report(record, DataError(f"{topic!r} cannot be the topic of an MQTT message."))
                continue
            info = self._connection.client.publish(
                topic,
                _payload(record.value),
                self._settings["mqtt.qos"],
                self._settings["mqtt.retained.enabled"],
            )
            self._sent.append(info)

    def flush(self, offsets: Mapping[TopicPartition, int]) -> None:
        deadline = time.monotonic() + _FLUSH_SECONDS
        for info in self._sent:
            try:
                info.wait_for_publish(max(0.01, deadline - time.monotonic()))
                done = info.is_published()
            except (ValueError, RuntimeError) as error:
                raise RetriableError(f"The MQTT broker took no message: {error}.") from None
            if not done:
                raise RetriableError(
                    f"The MQTT broker at {self._settings['mqtt.server.uri'][0]} has not acknowledged all messages "
                    f"within {_FLUSH_SECONDS:.0f} s."
                )
        self._sent = []


def _payload(value: Any) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return _text(value).encode()


def _text(value: Any) -> str:
    return value if isinstance(value, str) else to_json(value)


MqttSinkConnector.task_class = MqttSinkTask
