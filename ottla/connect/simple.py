"""Base classes for connectors in a dozen lines: one method reads after an offset, or one method writes.

    class Lines(SimpleSource):
        config_def = ConfigDef().define("path", ConfigType.STRING)

        def read(self, offset):
            with open(self.settings["path"]) as lines:
                for number, line in enumerate(lines, start=1):
                    if number > (offset or 0):
                        yield line.rstrip("\\n"), number

The base classes handle tasks, offsets and batches. The setting `topic` exists without a definition. To publish a
connector, name its class in your package under the entry point `ottla.connectors`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

from ottla.connect.api import (
    Config,
    SinkConnector,
    SinkTask,
    SinkTaskContext,
    SourceConnector,
    SourceTask,
    SourceTaskContext,
)
from ottla.connect.config.config_def import ConfigDef, ConfigType, Importance, at_least, not_empty
from ottla.connect.data.record import SinkRecord, SourceRecord

#: `read` yields a value (or a whole record) with the offset to resume from, or None if nothing is available yet.
Read = tuple[Any, Any] | None

# Source partition of a source without partitions.
_ONE = "all"


class SimpleSource(SourceConnector):
    """A source that implements one method, `read`.

    `self.settings` holds the parsed settings. Offsets are text, numbers or a flat dict of them. A source with several
    independent parts names them in `partitions` and defines `read_partition`, which allows several tasks.
    """

    settings: dict[str, Any]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.config_def = _with_common_settings(cls.config_def)
        cls.task_class = type(
            f"{cls.__name__}Task", (_SimpleSourceTask,), {"source": cls, "__module__": cls.__module__}
        )

    def start(self, config: Config) -> None:
        super().start(config)
        self.settings = self.config_def.parse(config)

    def partitions(self) -> Sequence[str]:
        """Return the parts of the source with separate offsets."""
        return [_ONE]

    def read(self, offset: Any) -> Iterable[Read]:
        """Yield everything after `offset`, which is None at first. Called again after it ends, so it may continue."""
        raise NotImplementedError

    def read_partition(self, partition: str, offset: Any) -> Iterable[Read]:
        return self.read(offset)

    def committed(self) -> None:
        """Called when the topic contains all records read so far."""

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        names = list(self.partitions())
        count = min(max_tasks, len(names))
        return [{**self.config, "task.partitions": "\n".join(names[task::count])} for task in range(count)]


class _SimpleSourceTask(SourceTask):
    source: ClassVar[type[SimpleSource]]

    def start(self, config: Config, context: SourceTaskContext) -> None:
        self._source: SimpleSource | None = None
        source = self.source()
        source.start(config)
        self._source = source
        self._topic: str = source.settings["topic"]
        self._most: int = source.settings["batch.size"]
        names = config.get("task.partitions", _ONE).split("\n")
        self._offsets = {name: _unwrapped(context.offset({"source": name})) for name in names}
        self._running: dict[str, Iterator[Read]] = {}

    def poll(self) -> Sequence[SourceRecord]:
        assert self._source is not None
        found: list[SourceRecord] = []
        for name, offset in self._offsets.items():
            reader = self._running.get(name)
            if reader is None:
                reader = self._running[name] = iter(self._source.read_partition(name, offset))
            found += self._take(name, reader)
        return found

    def _take(self, name: str, reader: Iterator[Read]) -> list[SourceRecord]:
        taken: list[SourceRecord] = []
        for each in reader:
            if each is None:
                return taken
            what, offset = each
            record = self._record(what)
            record.source_partition = {"source": name}
            record.source_offset = offset if isinstance(offset, Mapping) else {"offset": offset}
            taken.append(record)
            self._offsets[name] = offset
            if len(taken) >= self._most:
                return taken
        del self._running[name]
        return taken

    def _record(self, what: Any) -> SourceRecord:
        if isinstance(what, SourceRecord):
            what.topic = what.topic or self._topic
            return what
        return SourceRecord(self._topic, what)

    def commit(self) -> None:
        assert self._source is not None
        self._source.committed()

    def stop(self) -> None:
        source = getattr(self, "_source", None)
        if source is not None:
            source.stop()


class SimpleSink(SinkConnector):
    """A sink that implements one method, `write`. Records are durable when it returns.

    Delivery is exactly once if writing a record twice has no effect, for example with the id `topic+partition+offset`.
    """

    settings: dict[str, Any]

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls.task_class = type(
            f"{cls.__name__}Task", (_SimpleSinkTask,), {"sink": cls, "__module__": cls.__module__}
        )

    def start(self, config: Config) -> None:
        super().start(config)
        self.settings = self.config_def.parse(config)

    def write(self, records: Sequence[SinkRecord]) -> None:
        raise NotImplementedError

    def task_configs(self, max_tasks: int) -> list[dict[str, str]]:
        return [dict(self.config) for _ in range(max_tasks)]


class _SimpleSinkTask(SinkTask):
    sink: ClassVar[type[SimpleSink]]

    def start(self, config: Config, context: SinkTaskContext) -> None:
        self._sink: SimpleSink | None = None
        sink = self.sink()
        sink.start(config)
        self._sink = sink

    def put(self, records: Sequence[SinkRecord]) -> None:
        assert self._sink is not None
        if records:
            self._sink.write(records)

    def stop(self) -> None:
        sink = getattr(self, "_sink", None)
        if sink is not None:
            sink.stop()


def _with_common_settings(own: ConfigDef) -> ConfigDef:
    common = ConfigDef()
    common.keys.update(own.keys)
    if "topic" not in own.keys:
        about = "The topic to write to."
        common.define(
            "topic", ConfigType.STRING, importance=Importance.HIGH, documentation=about, validator=not_empty
        )
    if "batch.size" not in own.keys:
        common.define(
            "batch.size",
            ConfigType.INT,
            1000,
            Importance.LOW,
            "The most records that are taken from the source at once.",
            validator=at_least(1),
        )
    return common


def _unwrapped(offset: Mapping[str, Any] | None) -> Any:
    return offset["offset"] if offset is not None and set(offset) == {"offset"} else offset
