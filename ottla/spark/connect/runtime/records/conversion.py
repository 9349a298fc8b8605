"""Records through transforms and converters, each way. What fails is handled as the settings `errors.*` say."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

from ottla.spark.connect.config.worker_config import WorkerConfig
from ottla.spark.connect.converters import PLUGINS, Converter, load_converter
from ottla.spark.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.spark.connect.errors import RetriableError
from ottla.spark.connect.runtime.failures.error_handling import ErrorHandling
from ottla.spark.connect.runtime.failures.stages import Failure, Stage
from ottla.spark.connect.transforms.chain import Chain

RawHeaders = list[tuple[str, bytes | None]]


class RawRecord(NamedTuple):
    """As it is in a topic."""

    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int
    timestamp_type: int

    @property
    def where(self) -> str:
        return f"{self.topic}-{self.partition} at offset {self.offset}"


class ConvertedRecord(NamedTuple):
    """Ready for Kafka."""

    topic: str
    partition: int | None
    key: bytes | None
    value: bytes | None
    headers: RawHeaders
    timestamp: int | None


#: Called with a failure that is tolerated or not, before that is decided.
OnFailure = Callable[[Failure, Any], None]


class _Conversion:
    """`_stage` and `_executing` say where a record is, in case it fails there."""

    def __init__(self, config: Mapping[str, str], worker: WorkerConfig, errors: ErrorHandling) -> None:
        defaults = worker.properties
        self._key = load_converter(config, defaults, "key")
        self._value = load_converter(config, defaults, "value")
        self._header = load_converter(config, defaults, "header")
        self._transform = load_chain(config)
        self._errors = errors
        self._stage = Stage.TRANSFORMATION
        self._executing: Any = None

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
    @property
    def passes_text(self) -> bool:
        """Whether a text without a key and without headers is written as its bytes in UTF-8."""
        return self._transform is None and _is_plain(self._value) and _is_plain(self._key)

    def convert(self, record: SourceRecord) -> ConvertedRecord | None:
        """None if it is dropped, by a transform or because it failed and that is tolerated."""
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
    """None if there are no transforms."""
    if not config.get("transforms", "").strip():
        return None
    return Chain.from_config(config)


def _is_plain(converter: Converter) -> bool:
    from ottla.spark.connect.converters.byte_array import ByteArrayConverter
    from ottla.spark.connect.converters.string_converter import StringConverter

    if isinstance(converter, ByteArrayConverter):
        return False  # it refuses texts
    return type(converter) is StringConverter and converter.from_connect("", None, "é") == "é".encode()


def _class_name(executing: Any) -> str:
    """Kafka's name of a converter where it has one, else Python's."""
    if executing is None:
        return ""
    kind = type(executing)
    return _java_names().get(
        f"{kind.__module__}:{kind.__qualname__}", f"{kind.__module__}.{kind.__qualname__}"
    )


@cache
def _java_names() -> dict[str, str]:
    return {target: name for name, target in PLUGINS.items()}
