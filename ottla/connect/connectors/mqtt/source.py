"""The source `io.confluent.connect.mqtt.MqttSourceConnector`.

Delivery is at least once with `mqtt.qos` 1 or 2 and `mqtt.clean.session.enabled=false`: the task acknowledges a message
only after the commit, and the broker resends unacknowledged messages. MQTT has no offsets to resume from.
"""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import Any

import paho.mqtt.client as mqtt

from ottla.connect.api import Config, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config.config_def import ConfigType, Importance, not_empty
from ottla.connect.connectors.mqtt.connection import MqttConnection, settings
from ottla.connect.data.record import Header, SourceRecord
from ottla.connect.data.schema import BOOLEAN, BYTES, INT32, STRING

_LONGEST_WAIT = 0.5
_BATCH = 1000
_QUEUE = 10_000


class MqttSourceConnector(SourceConnector):
    config_def = (
        settings()
        .define(
            "mqtt.topics",
            ConfigType.LIST,
            importance=Importance.HIGH,
            documentation="The MQTT topics, with + and #.",
            validator=not_empty,
        )
        .define(
            "kafka.topic",
            ConfigType.STRING,
            "mqtt",
            Importance.HIGH,
            "The topic to write to.",
            validator=not_empty,
        )
    )
    summary = "messages of an MQTT broker"
    exactly_once = False

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        topics = self.config_def.parse(self.config)["mqtt.topics"]
        count = min(max_tasks, len(topics))
        return [
            {**self.config, "mqtt.topics": ",".join(topics[task::count]), "task.id": str(task)}
            for task in range(count)
        ]


class MqttSourceTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._connection: MqttConnection | None = None
        self._settings = MqttSourceConnector.config_def.parse(config)
        self._messages: queue.Queue[mqtt.MQTTMessage] = queue.Queue(_QUEUE)
        self._unacknowledged: list[mqtt.MQTTMessage] = []
        id = self._settings["mqtt.client.id"] or f"connect-{config.get('name', 'mqtt')}"
        self._connection = MqttConnection(
            self._settings,
            f"{id}-{config.get('task.id', '0')}",
            self._subscribe,
            self._messages.put,
            manual_ack=True,
        )
        self._connection.open()

    def _subscribe(self, client: mqtt.Client) -> None:
        qos = self._settings["mqtt.qos"]
        client.subscribe([(topic, qos) for topic in self._settings["mqtt.topics"]])

    def stop(self) -> None:
        connection = getattr(self, "_connection", None)
        if connection is not None:
            # Unblock a thread that waits for room in the queue, so that it can end.
            self._messages.maxsize = 0
            connection.close()

    def poll(self) -> Sequence[SourceRecord]:
        found: list[mqtt.MQTTMessage] = []
        try:
            found.append(self._messages.get(timeout=_LONGEST_WAIT))
            while len(found) < _BATCH:
                found.append(self._messages.get_nowait())
        except queue.Empty:
            pass
        self._unacknowledged += found
        return [self._record(message) for message in found]

    def commit(self) -> None:
        assert self._connection is not None
        for message in self._unacknowledged:
            if message.qos:
                self._connection.client.ack(message.mid, message.qos)
        self._unacknowledged = []

    def _record(self, message: Any) -> SourceRecord:
        headers = [
            Header("mqtt.message.id", message.mid, INT32),
            Header("mqtt.qos", message.qos, INT32),
            Header("mqtt.retained", bool(message.retain), BOOLEAN),
            Header("mqtt.duplicate", bool(message.dup), BOOLEAN),
        ]
        return SourceRecord(
            self._settings["kafka.topic"],
            bytes(message.payload),
            BYTES,
            message.topic,
            STRING,
            headers=headers,
            source_partition={"server": self._settings["mqtt.server.uri"][0], "topic": message.topic},
            source_offset={"message.id": message.mid},
        )


MqttSourceConnector.task_class = MqttSourceTask
