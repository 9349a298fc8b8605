"""Applies transforms and converters in both directions. The `errors.*` settings govern failures."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.converters import PLUGINS, Converter, load_converter
from ottla.connect.data.columns import Columns, SinkColumns, runs
from ottla.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import Schema
from ottla.connect.errors import RetriableError
from ottla.connect.runtime.failures.error_handling import ErrorHandling
from ottla.connect.runtime.failures.stages import Failure, Stage
from ottla.connect.runtime.records.topic_records import (
    ConvertedRecord,
    ConvertedRecords,
    RawHeaders,
    RawRecord,
    RawRecords,
)
from ottla.connect.transforms.chain import Chain

#: Batches this small are freed before they trigger the garbage collector, whose runs would cost more.
_AT_ONCE = 250

#: Called with every failure before the decision whether to tolerate it.
OnFailure = Callable[[Failure, Any], None]


class _Conversion:
    """`_stage` and `_executing` track the current step, for error reports."""

    def __init__(self, config: Mapping[str, str], worker: WorkerConfig, errors: ErrorHandling) -> None:
        defaults = worker.properties
        self._key = load_converter(config, defaults, "key")
        self._value = load_converter(config, defaults, "value")
        self._header = load_converter(config, defaults, "header")
        self._transform = load_chain(config)
        self._errors = errors
        self._stage = Stage.TRANSFORMATION
        self._executing: Any = None

    @property
    def takes_columns(self) -> bool:
        return self._transform is None or self._transform.takes_columns

    def close(self) -> None:
        for each in (self._key, self._value, self._header):
            each.close()
        if self._transform is not None:
            self._transform.close()

    def _failure(self, error: Exception) -> Failure:
        name = _class_name(self._executing)
        if self._stage is Stage.TRANSFORMATION and self._transform is not None:
            at_work = self._transform.current
            name = "" if at_work is None else at_work.class_name
        return Failure(self._stage, name, error)

    def _at(self, stage: Stage, executing: Any) -> Any:
        self._stage, self._executing = stage, executing
        return executing

    def _transformed(self, record: Any) -> Any:
        if self._transform is None:
            return record
        self._at(Stage.TRANSFORMATION, self._transform)
        return self._transform.apply(record)


class SourceConversion(_Conversion):
    def convert_all(self, records: Sequence[SourceRecord]) -> dict[str, ConvertedRecords]:
        found: dict[str, ConvertedRecords] = {}
        for some, columns in runs(records) if self.takes_columns else [(records, None)]:
            if columns is None or not self._add_columns(columns, found):
                self._add_each(some, found)
        return found

    def convert_columns(
        self, columns: Columns, records: Callable[[], Sequence[SourceRecord]]
    ) -> dict[str, ConvertedRecords]:
        """Convert columns like `convert_all`. `records` is called only for conversion one by one."""
        found: dict[str, ConvertedRecords] = {}
        if not self._add_columns(columns, found):
            self._add_each(records(), found)
        return found

    def _add_columns(self, columns: Columns, found: dict[str, ConvertedRecords]) -> bool:
        """Convert all columns. Return False and add nothing if the records must be converted one by one."""
        converted: list[tuple[str, ConvertedRecords]] = []
        try:
            for some in [columns] if self._transform is None else columns.parts(_AT_ONCE):
                if self._transform is not None:
                    some = self._transform.apply_columns(some)
                its = ConvertedRecords(
                    [some.partition] * len(some),
                    _all_from_connect(self._key, some.topic, some.key_schema, some.keys),
                    self._value.all_from_connect(some.topic, some.value_schema, some.values),
                    [[]] * len(some),
                    some.timestamps,
                )
                converted.append((some.topic, its))
        except Exception:  # converting one by one finds the failing record and handles it
            return False
        for topic, its in converted:
            found.setdefault(topic, ConvertedRecords()).extend(its)
        return True

    def _add_each(self, records: Sequence[SourceRecord], found: dict[str, ConvertedRecords]) -> None:
        for each in records:
            converted = self.convert(each)
            if converted is not None:
                found.setdefault(converted.topic, ConvertedRecords()).add(converted)

    def convert(self, record: SourceRecord) -> ConvertedRecord | None:
        """Return None if a transform drops the record or its failure is tolerated."""
        try:
            return self._convert(record)
        except RetriableError:
            return self._again(record)
        except Exception as error:
            self._give_up(record, error)
            return None

    def _again(self, record: SourceRecord) -> ConvertedRecord | None:
        try:
            return self._errors.retrying(lambda: self._convert(record))
        except Exception as error:
            self._give_up(record, error)
            return None

    def _give_up(self, record: SourceRecord, error: Exception) -> None:
        failure = self._failure(error)
        where = f"{dict(record.source_partition)} at offset {dict(record.source_offset)}"
        self._errors.report(failure, record, where)
        self._errors.tolerate(failure, where)

    def _convert(self, original: SourceRecord) -> ConvertedRecord | None:
        record = self._transformed(original)
        if record is None:
            return None
        topic = record.topic
        headers: RawHeaders = []
        if record.headers:
            converter: Converter = self._at(Stage.HEADER_CONVERTER, self._header)
            headers = [
                (each.key, converter.from_connect_header(topic, each.key, each.schema, each.value))
                for each in record.headers
            ]
        self._at(Stage.KEY_CONVERTER, self._key)
        key = self._key.from_connect(topic, record.key_schema, record.key)
        self._at(Stage.VALUE_CONVERTER, self._value)
        value = self._value.from_connect(topic, record.value_schema, record.value)
        return ConvertedRecord(topic, record.partition, key, value, headers, record.timestamp)


class SinkConversion(_Conversion):
    def __init__(
        self, config: Mapping[str, str], worker: WorkerConfig, errors: ErrorHandling, on_failure: OnFailure
    ) -> None:
        super().__init__(config, worker, errors)
        self._on_failure = on_failure

    def convert_columns(self, raw: RawRecords) -> SinkColumns | None:
        """Return None if the records must be converted one by one."""
        if raw.headers is not None or not self.takes_columns:
            return None
        try:
            key_schema, keys = _all_to_connect(self._key, raw.topic, raw.keys)
            value_schema, values = self._value.all_to_connect(raw.topic, raw.values)
            columns = SinkColumns(
                topic=raw.topic,
                partition=raw.partition,
                value_schema=value_schema,
                values=values,
                key_schema=key_schema,
                keys=keys,
                timestamps=[None if each < 0 else each for each in raw.timestamps],
                offsets=raw.offsets,
                timestamp_types=raw.timestamp_types,
                original_topic=raw.topic,
                original_partition=raw.partition,
            )
            return columns if self._transform is None else self._transform.apply_columns(columns)
        except Exception:  # converting one by one finds the failing record and handles it
            return None

    def convert_each(self, raw: Iterable[RawRecord]) -> list[SinkRecord]:
        return [found for each in raw if (found := self.convert(each)) is not None]

    def convert(self, raw: RawRecord) -> SinkRecord | None:
        try:
            return self._convert(raw)
        except RetriableError:
            return self._again(raw)
        except Exception as error:
            self._give_up(raw, error)
            return None

    def _again(self, raw: RawRecord) -> SinkRecord | None:
        try:
            return self._errors.retrying(lambda: self._convert(raw))
        except Exception as error:
            self._give_up(raw, error)
            return None

    def _give_up(self, raw: RawRecord, error: Exception) -> None:
        failure = self._failure(error)
        self._errors.report(failure, None, raw.where)
        self._on_failure(failure, raw)
        self._errors.tolerate(failure, raw.where)

    def _convert(self, raw: RawRecord) -> SinkRecord | None:
        topic = raw.topic
        self._at(Stage.KEY_CONVERTER, self._key)
        key_schema, key = self._key.to_connect(topic, raw.key)
        self._at(Stage.VALUE_CONVERTER, self._value)
        value_schema, value = self._value.to_connect(topic, raw.value)
        headers: list[Header] = []
        if raw.headers:
            converter: Converter = self._at(Stage.HEADER_CONVERTER, self._header)
            for name, data in raw.headers:
                schema, content = converter.to_connect_header(topic, name, data)
                headers.append(Header(name, content, schema))
        record = SinkRecord(
            topic=topic,
            value=value,
            value_schema=value_schema,
            key=key,
            key_schema=key_schema,
            partition=raw.partition,
            timestamp=raw.timestamp if raw.timestamp >= 0 else None,
            headers=headers,
            offset=raw.offset,
            timestamp_type=raw.timestamp_type,
            original_topic=topic,
            original_partition=raw.partition,
        )
        found: SinkRecord | None = self._transformed(record)
        return found


def load_chain(config: Mapping[str, str]) -> Chain | None:
    """Return None if no transforms are configured."""
    if not config.get("transforms", "").strip():
        return None
    return Chain.from_config(config)


def _all_from_connect(
    converter: Converter, topic: str, schema: Schema | None, values: list[Any]
) -> list[bytes | None]:
    """Convert values, with a shortcut for all nulls, because most topics have no keys."""
    if values[0] is None and values.count(None) == len(values):
        return [converter.from_connect(topic, schema, None)] * len(values)
    return converter.all_from_connect(topic, schema, values)


def _all_to_connect(
    converter: Converter, topic: str, data: list[bytes | None]
) -> tuple[Schema | None, list[Any]]:
    if data[0] is None and data.count(None) == len(data):
        schema, value = converter.to_connect(topic, None)
        return schema, [value] * len(data)
    return converter.all_to_connect(topic, data)


def _class_name(executing: Any) -> str:
    """Return Kafka's name of a converter if it has one, or else Python's."""
    if executing is None:
        return ""
    kind = type(executing)
    return _java_names().get(
        f"{kind.__module__}:{kind.__qualname__}", f"{kind.__module__}.{kind.__qualname__}"
    )


@cache
def _java_names() -> dict[str, str]:
    return {target: name for name, target in PLUGINS.items()}
