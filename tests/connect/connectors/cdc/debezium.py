"""The real Debezium, from Maven Central, in Kafka's own Connect worker against an Ottla broker."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from confluent_kafka import Consumer

from ottla.testing import Broker

VERSION = "3.2.0.Final"
_ARTIFACTS = (
    f"io.debezium:debezium-connector-postgres:{VERSION}",
    f"io.debezium:debezium-connector-mariadb:{VERSION}",
    "org.apache.kafka:connect-runtime:4.3.0",
    "org.apache.kafka:connect-json:4.3.0",
    "org.slf4j:slf4j-nop:1.7.36",
)


def _escaped(text: str) -> str:
    """Escape text for a Java properties file."""
    return "".join(mark if ord(mark) < 128 else f"\\u{ord(mark):04x}" for mark in text.replace("\\", "\\\\"))


class Debezium:
    """Runs one connector. `records` holds its topics' records, as JSON with schemas."""

    def __init__(self, folder: Path, config: Mapping[str, str]) -> None:
        from bench.peers.apache_kafka import Unavailable, java, resolve

        try:
            self._jars = resolve(f"debezium-{VERSION}", _ARTIFACTS)
            self._java = java()
        except Unavailable as reason:
            pytest.skip(str(reason))
        self._folder = folder
        self._config = config
        self.records: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        self._broker = Broker()
        self._broker.__enter__()
        worker = {
            "bootstrap.servers": self._broker.bootstrap_servers,
            "key.converter": "org.apache.kafka.connect.json.JsonConverter",
            "value.converter": "org.apache.kafka.connect.json.JsonConverter",
            "offset.storage.file.filename": str(self._folder / "offsets"),
            "listeners": "http://127.0.0.1:0",
        }
        files = []
        for name, settings in (("worker", worker), ("connector", {"name": "debezium", **self._config})):
            path = self._folder / f"{name}.properties"
            path.write_text("".join(f"{each}={_escaped(value)}\n" for each, value in settings.items()))
            files.append(str(path))
        main = "org.apache.kafka.connect.cli.ConnectStandalone"
        command = [self._java, "-Xmx512m", "-cp", f"{self._jars}/*", main, *files]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._consumer = Consumer(
            {
                "bootstrap.servers": self._broker.bootstrap_servers,
                "group.id": "comparison",
                "auto.offset.reset": "earliest",
                "topic.metadata.refresh.interval.ms": 300,
            }
        )
        self._consumer.subscribe([f"^{self._config['topic.prefix']}[.].*"])
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._process.terminate()
        self._process.wait(60)
        self._broker.__exit__(None, None, None)

    def wait_for(self, enough: Callable[[list[dict[str, Any]]], bool], seconds: float = 150) -> None:
        deadline = time.monotonic() + seconds
        while not enough(self.records):
            assert time.monotonic() < deadline, f"Debezium has published {len(self.records)} records only."
            assert self._process.poll() is None, "Debezium has ended."
            message = self._consumer.poll(0.2)
            if message is None or message.error():
                continue
            key, value = message.key(), message.value()
            self.records.append(
                {
                    "topic": message.topic(),
                    "key": json.loads(key) if key is not None else None,
                    "value": json.loads(value) if value is not None else None,
                    "headers": [name for name, _ in message.headers() or ()],
                }
            )
