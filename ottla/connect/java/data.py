"""Converts records to Java and back, as JSON with schemas: one byte array per key, value and header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.data.record import ConnectRecord, Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import Schema
from ottla.connect.java import machine
from ottla.connect.java.jars import Libraries

_JSON = "org.apache.kafka.connect.json.JsonConverter"


class Crossing:
    """Owner: one task, in one thread."""

    def __init__(self, libraries: Libraries) -> None:
        import jpype

        self._java = machine.load(libraries.json, _JSON)()
        settings = jpype.java.util.HashMap()
        settings.put("schemas.enable", "true")
        settings.put("schemas.cache.size", "1000")
        self._java.configure(settings, False)
        self._python = JsonConverter()
        self._python.configure({"schemas.enable": "true"})
        self._sink_record: Any = jpype.JClass("org.apache.kafka.connect.sink.SinkRecord")
        self._source_record: Any = jpype.JClass("org.apache.kafka.connect.source.SourceRecord")
        self._headers: Any = jpype.JClass("org.apache.kafka.connect.header.ConnectHeaders")
        kinds = jpype.JClass("org.apache.kafka.common.record.TimestampType")
        self._timestamp_types = {
            -1: kinds.NO_TIMESTAMP_TYPE,
            0: kinds.CREATE_TIME,
            1: kinds.LOG_APPEND_TIME,
        }
        self._long = jpype.JClass("java.lang.Long")
        self._int = jpype.JClass("java.lang.Integer")

    # From Java

    def source_record(self, record: Any) -> SourceRecord:
        return SourceRecord(
            **self.fields(record),
            source_partition=from_java_map(record.sourcePartition()),
            source_offset=from_java_map(record.sourceOffset()),
        )

    def fields(self, record: Any) -> dict[str, Any]:
        """Return the fields that sources, sinks and transforms share, by name."""
        topic = str(record.topic())
        key_schema, key = self.from_java(topic, record.keySchema(), record.key())
        value_schema, value = self.from_java(topic, record.valueSchema(), record.value())
        headers = []
        for each in record.headers():
            schema, content = self.from_java(topic, each.schema(), each.value())
            headers.append(Header(str(each.key()), content, schema))
        partition, timestamp = record.kafkaPartition(), record.timestamp()
        return {
            "topic": topic,
            "value": value,
            "value_schema": value_schema,
            "key": key,
            "key_schema": key_schema,
            "partition": None if partition is None else int(partition),
            "timestamp": None if timestamp is None else int(timestamp),
            "headers": headers,
        }

    def from_java(self, topic: str, schema: Any, value: Any) -> tuple[Schema | None, Any]:
        if schema is None and value is None:
            return None, None
        return self._python.to_connect(topic, bytes(self._java.fromConnectData(topic, schema, value)))

    # To Java

    def record_to_java(self, record: ConnectRecord) -> Any:
        if isinstance(record, SinkRecord):
            return self.sink_record(record)
        given = record if isinstance(record, SourceRecord) else None
        key, value, headers = self._contents(record)
        return self._source_record(
            None if given is None else offset_to_java(given.source_partition),
            None if given is None else offset_to_java(given.source_offset),
            record.topic,
            None if record.partition is None else self._int(record.partition),
            key.schema(),
            key.value(),
            value.schema(),
            value.value(),
            None if record.timestamp is None else self._long(record.timestamp),
            headers,
        )

    def sink_record(self, record: SinkRecord) -> Any:
        key, value, headers = self._contents(record)
        return self._sink_record(
            record.topic,
            record.partition,
            key.schema(),
            key.value(),
            value.schema(),
            value.value(),
            record.offset,
            None if record.timestamp is None else self._long(record.timestamp),
            self._timestamp_types[record.timestamp_type if record.timestamp is not None else -1],
            headers,
        )

    def _contents(self, record: ConnectRecord) -> tuple[Any, Any, Any]:
        topic = record.topic
        headers = self._headers()
        for each in record.headers:
            content = self.to_java(topic, each.schema, each.value)
            headers.add(each.key, content.value(), content.schema())
        return (
            self.to_java(topic, record.key_schema, record.key),
            self.to_java(topic, record.value_schema, record.value),
            headers,
        )

    def to_java(self, topic: str, schema: Schema | None, value: Any) -> Any:
        """Return Java's SchemaAndValue."""
        data = None if schema is None and value is None else self._python.from_connect(topic, schema, value)
        import jpype

        return self._java.toConnectData(topic, None if data is None else jpype.JArray(jpype.JByte)(data))


def to_java_config(config: Mapping[str, str], class_name: str) -> Any:
    """Replace the class name with the full one, because some connectors read it."""
    return to_java_map({**config, "connector.class": class_name} if "connector.class" in config else config)


def to_java_map(values: Mapping[str, str]) -> Any:
    import jpype

    found = jpype.java.util.HashMap()
    for name, value in values.items():
        found.put(name, value)
    return found


def from_java_map(found: Any) -> dict[str, Any]:
    """Source partitions and offsets contain texts, numbers and booleans."""
    return (
        {} if found is None else {str(each.getKey()): from_java(each.getValue()) for each in found.entrySet()}
    )


def from_java(value: Any) -> Any:
    import jpype

    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, jpype.java.lang.Boolean):
        return bool(value)
    if isinstance(value, jpype.java.lang.Double | jpype.java.lang.Float):
        return float(value)
    if isinstance(value, jpype.java.lang.Number):
        return int(value)
    return str(value)


def offset_to_java(offset: Mapping[str, Any] | None) -> Any:
    """Convert an offset as Kafka reads it from JSON: whole numbers are Long, others Double."""
    import jpype

    if offset is None:
        return None
    found = jpype.java.util.HashMap()
    for name, value in offset.items():
        if isinstance(value, bool):
            value = jpype.java.lang.Boolean(value)
        elif isinstance(value, int):
            value = jpype.java.lang.Long(value)
        elif isinstance(value, float):
            value = jpype.java.lang.Double(value)
        found.put(name, value)
    return found
