"""The source `io.confluent.kafka.connect.datagen.DatagenConnector`."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ottla.connect.api import Config, SourceConnector, SourceTask, SourceTaskContext
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, not_empty
from ottla.connect.connectors.datagen.generator import Generator
from ottla.connect.connectors.datagen.quickstarts import QUICKSTARTS
from ottla.connect.data.record import Header, SourceRecord
from ottla.connect.data.schema import INT64, OPTIONAL_STRING
from ottla.connect.errors import ConnectError

_HIGH = Importance.HIGH
#: Batch size for `max.interval` 0, which sends records as fast as possible.
_BATCH = 500
_LONGEST_WAIT = 0.5


class DatagenConnector(SourceConnector):
    config_def = (
        ConfigDef()
        .define(
            "kafka.topic",
            ConfigType.STRING,
            importance=_HIGH,
            documentation="Topic to write to",
            validator=not_empty,
        )
        .define(
            "max.interval",
            ConfigType.LONG,
            500,
            _HIGH,
            "Max interval between messages (ms); below 1 for none",
        )
        .define(
            "iterations",
            ConfigType.INT,
            -1,
            _HIGH,
            "Number of messages per task, or less than 1 for unlimited",
        )
        .define("schema.string", ConfigType.STRING, "", _HIGH, "The literal Avro schema to use")
        .define("schema.filename", ConfigType.STRING, "", _HIGH, "Filename of the schema to use")
        .define(
            "schema.keyfield", ConfigType.STRING, "", _HIGH, "Name of the field to use as the message key"
        )
        .define("quickstart", ConfigType.STRING, "", _HIGH, f"One of {', '.join(QUICKSTARTS)}")
        .define("random.seed", ConfigType.LONG, None, Importance.LOW, "The same seed gives the same messages")
        .define("generate.timeout", ConfigType.LONG, None, Importance.LOW, "No effect")
    )
    summary = "made-up records, by quickstart or Avro schema"

    def local_paths(self, config: Config) -> Mapping[str, str]:
        path = config.get("schema.filename")
        return {"schema.filename": path} if path else {}

    def validate(self, config: Config) -> Mapping[str, Sequence[str]]:
        given = [name for name in ("quickstart", "schema.string", "schema.filename") if config.get(name)]
        if len(given) != 1:
            one = "Set exactly one of quickstart, schema.string and schema.filename."
            return {name: [one] for name in given or ["quickstart"]}
        try:
            _generator(self.config_def.parse(config), 0)
        except ConnectError as error:
            return {given[0]: [error.message]}
        return {}

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [{**self.config, "task.id": str(number)} for number in range(max_tasks)]


def _generator(settings: Mapping[str, Any], seed: int) -> tuple[Generator, str]:
    """Return the generator and the name of the key field, which may be empty."""
    key: str = settings["schema.keyfield"]
    if settings["quickstart"]:
        found = QUICKSTARTS.get(settings["quickstart"].lower())
        if found is None:
            raise ConnectError(
                f"There is no quickstart {settings['quickstart']!r}. There are: {', '.join(QUICKSTARTS)}."
            )
        return Generator(found.schema, seed), key or found.key
    text = settings["schema.string"]
    if not text:
        try:
            text = Path(settings["schema.filename"]).read_text()
        except (OSError, UnicodeDecodeError) as error:
            raise ConnectError(
                f"Unable to read the '{settings['schema.filename']}' schema file: {error}."
            ) from None
    generator = Generator(text, seed)
    if key and generator.schema.field(key) is None:
        raise ConnectError(f"The schema has no field {key!r}, which schema.keyfield names.")
    return generator, key


class DatagenTask(SourceTask):
    def start(self, config: Config, context: SourceTaskContext) -> None:
        settings = DatagenConnector.config_def.parse(config)
        self._id = int(config.get("task.id", "0"))
        self._partition = {"task.id": self._id}
        offset = context.offset(self._partition) or {}
        seed = offset.get("random.seed", settings["random.seed"])
        self._seed: int = random.SystemRandom().getrandbits(62) if seed is None else seed
        self._generation: int = offset.get("task.generation", 0)
        self._number: int = offset.get("current.iteration", 0)
        self._last: int = settings["iterations"]
        self._topic: str = settings["kafka.topic"]
        self._interval: float = settings["max.interval"] / 1000
        # Tasks produce different records even with the same seed.
        self._generator, self._key = _generator(settings, self._seed + self._id)
        self._due = time.monotonic()
        self._has_uncommitted = False

    def poll(self) -> Sequence[SourceRecord]:
        if 0 < self._last <= self._number:
            if self._has_uncommitted:
                # Failing now would abort the transaction with the last records.
                return []
            raise ConnectError(
                f"Stopping connector: generated the configured {self._last} number of messages"
            )
        count = self._how_many_are_due()
        if self._last > 0:
            count = min(count, self._last - self._number)
        self._has_uncommitted = self._has_uncommitted or count > 0
        return [self._next() for _ in range(count)]

    def commit(self) -> None:
        self._has_uncommitted = False

    def _how_many_are_due(self) -> int:
        if self._interval <= 0:
            return _BATCH
        wait = self._due - time.monotonic()
        if wait > 0:
            time.sleep(min(wait, _LONGEST_WAIT))
        count, now = 0, time.monotonic()
        while self._due <= now and count < _BATCH:
            count += 1
            self._due += random.random() * self._interval
        return count

    def _next(self) -> SourceRecord:
        value = self._generator.generate(self._number)
        headers = {
            "task.generation": self._generation,
            "task.id": self._id,
            "current.iteration": self._number,
        }
        self._number += 1
        field = self._generator.schema.field(self._key) if self._key else None
        return SourceRecord(
            self._topic,
            value,
            value.schema,
            value.get(self._key) if field else None,
            field.schema if field else OPTIONAL_STRING,
            headers=[Header(name, number, INT64) for name, number in headers.items()],
            source_partition=self._partition,
            source_offset={
                "task.generation": self._generation + 1,
                "current.iteration": self._number,
                "random.seed": self._seed,
            },
        )


DatagenConnector.task_class = DatagenTask
