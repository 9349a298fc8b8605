"""Promise: the same config gives the same records, or the same message, as Kafka's own transforms."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.spark.connect.config.config_def import ConfigError
from ottla.spark.connect.data.record import ConnectRecord
from ottla.spark.connect.errors import ConnectError
from ottla.spark.connect.transforms.chain import transform_of
from tests.spark.connect.oracle.records import records
from tests.spark.connect.oracle.running import ask, comparable

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

KAFKA = "org.apache.kafka.connect.transforms."

CONFIGS: dict[str, list[dict[str, str]]] = {
    "Cast": [
        *({"spec": kind} for kind in
          ("int8", "int16", "int32", "int64", "float32", "float64", "boolean", "string", "INT8", "bytes", "array", "x", "")),
        *({"spec": f"{field}:{kind}"} for field in ("a", "b", "f64", "at", "amount", "raw", "day", "c", "f32", "tags")
          for kind in ("int8", "int64", "float32", "float64", "boolean", "string")),
        {"spec": "a:int32,b:string"}, {"spec": "a:int32,string"}, {"spec": "a:b:c"}, {"spec": "a:"}, {},
        {"spec": "a:string,b:int8,c:float32", "replace.null.with.default": "false"},
    ],
    "DropHeaders": [{"headers": "h1"}, {"headers": "h1,h2"}, {"headers": "none"}, {"headers": ""}, {}],
    "ExtractField": [
        {"field": "a"}, {"field": "b"}, {"field": "none"}, {"field": "city.name"}, {"field": "a.b"}, {"field": "city"},
        {"field": "city.name", "field.syntax.version": "V2"}, {"field": "city.`zip.code`", "field.syntax.version": "v2"},
        {"field": "`a.b`", "field.syntax.version": "V2"}, {"field": "b.d.e", "field.syntax.version": "V2"},
        {"field": "a.b", "field.syntax.version": "V2"}, {"field": "other.name", "field.syntax.version": "V2"},
        {"field": "`a", "field.syntax.version": "V2"}, {"field": "a`b", "field.syntax.version": "V2"},
        {"field": "a", "replace.null.with.default": "false"}, {"field": "a", "field.syntax.version": "V3"}, {},
        {"field": ""}, {"field": "", "field.syntax.version": "V2"}, {"field": "a.", "field.syntax.version": "V2"},
        {"field": "`a\\`.b`", "field.syntax.version": "V2"}, {"field": "x", "field.syntax.version": "V2"},
    ],
    "Filter": [{}],
    "Flatten": [{}, {"delimiter": "_"}, {"delimiter": ""}],
    "HeaderFrom": [
        {"fields": "a", "headers": "x", "operation": "copy"}, {"fields": "a", "headers": "x", "operation": "move"},
        {"fields": "a,b", "headers": "x,y", "operation": "move"}, {"fields": "a,c", "headers": "x,x", "operation": "copy"},
        {"fields": "a", "headers": "x,y", "operation": "copy"}, {"fields": "a", "headers": "x", "operation": "take"},
        {"fields": "", "headers": "", "operation": "copy"}, {},
        {"fields": "b", "headers": "x", "operation": "move", "replace.null.with.default": "false"},
    ],
    "HoistField": [{"field": "x"}, {}, {"field": ""}],
    "InsertField": [
        {"topic.field": "t"}, {"topic.field": "t!"}, {"partition.field": "p"}, {"partition.field": "p?"},
        {"offset.field": "o"}, {"timestamp.field": "ts2"}, {"timestamp.field": "ts2!"},
        {"static.field": "s", "static.value": "v"}, {"static.field": "s!"}, {"static.value": "v"}, {},
        {"topic.field": "a"}, {"topic.field": "t", "partition.field": "p!", "offset.field": "o", "timestamp.field": "x",
                               "static.field": "s", "static.value": "1", "replace.null.with.default": "false"},
    ],
    "InsertHeader": [
        *({"header": "x", "value.literal": each} for each in (
            "text", "5", "-129", "1.5", "true", "null", "[1,2]", '{"a":1}', "2024-02-29", "", " x ", "2024-02-29T01:02:03.004Z",
            "01:02:03.004Z", "99999999999999999999", '"quoted"', "[1,\"a\"]", "{a:1}", "[", "1e400", "TRUE", "12345678901")),
        {"header": "x"}, {"value.literal": "x"},
    ],
    "MaskField": [
        {"fields": "a"}, {"fields": "a,b,f32,f64,ok"}, {"fields": "raw"}, {"fields": "amount,day,clock,at"}, {"fields": "tags"},
        {"fields": "none"}, {"fields": ""}, {}, {"fields": "a", "replacement": "***"}, {"fields": "a,b", "replacement": "7"},
        {"fields": "b", "replacement": "x"}, {"fields": "ok", "replacement": "x"}, {"fields": "a", "replacement": ""},
        {"fields": "i8", "replacement": "300"}, {"fields": "i8,i16,f32,f64,amount", "replacement": "9"},
        {"fields": "f64", "replacement": "1.5"}, {"fields": "city"}, {"fields": "m"},
        {"fields": "a,b,c", "replace.null.with.default": "false"},
    ],
    "RegexRouter": [
        {"regex": "orders-(.*)", "replacement": "new-$1"}, {"regex": "(.*)-(\\d)", "replacement": "$2$1"},
        {"regex": "orders", "replacement": "x"}, {"regex": "(?<a>o.*)-1", "replacement": "${a}"},
        {"regex": ".*", "replacement": "$3"}, {"regex": "(.*)", "replacement": "\\$1"}, {"regex": "(.*)", "replacement": "x$"},
        {"regex": "(", "replacement": "x"}, {"regex": "[a-z&&[^x]]+-\\p{Digit}", "replacement": "y"},
        {"regex": "(?i)ORDERS-(\\d+)", "replacement": "$11"}, {"regex": "\\Qorders-1\\E", "replacement": "q"}, {},
        {"regex": "o.*?", "replacement": "z"}, {"regex": "(.*)", "replacement": "${b}"}, {"regex": "(.*)", "replacement": ""},
        {"regex": "(x)?orders-1", "replacement": "a$1b"}, {"regex": "orders-1|x(?i)y", "replacement": "k"},
    ],
    "ReplaceField": [
        {"exclude": "a"}, {"include": "a"}, {"include": "a,b", "exclude": "b"}, {"renames": "a:z"}, {"renames": "a:b,b:a"},
        {"renames": "a"}, {"renames": "a:b:c"}, {"renames": "a:"}, {}, {"include": "none"},
        {"renames": "a:b"}, {"include": "b", "renames": "b:x", "replace.null.with.default": "false"},
    ],
    "SetSchemaMetadata": [
        {"schema.name": "N"}, {"schema.version": "3"}, {"schema.name": "N", "schema.version": "4"}, {},
        {"schema.version": "x"}, {"schema.name": "N", "replace.null.with.default": "false"},
    ],
    "TimestampConverter": [
        *({"target.type": kind, "format": "yyyy-MM-dd HH:mm:ss"} for kind in ("string", "unix", "Date", "Time", "Timestamp")),
        *({"target.type": kind, "format": "yyyy-MM-dd HH:mm:ss", "field": field} for field in ("ts", "a", "at", "maybe", "day", "c")
          for kind in ("string", "unix", "Date", "Time", "Timestamp")),
        *({"target.type": "unix", "unix.precision": each} for each in ("seconds", "microseconds", "nanoseconds", "days")),
        *({"target.type": "Timestamp", "unix.precision": each} for each in ("seconds", "microseconds", "nanoseconds")),
        {"target.type": "string"}, {"target.type": "string", "format": "bad"}, {"target.type": "x"}, {},
        {"target.type": "unix", "field": "b", "replace.null.with.default": "false"},
        {"target.type": "unix", "format": "bad"},
    ],
    "TimestampRouter": [
        {}, {"topic.format": "${timestamp}_${topic}", "timestamp.format": "yyyy/MM/dd HH"}, {"topic.format": "x"},
        {"timestamp.format": "bad"},
        *({"timestamp.format": each} for each in (
            "yy", "yyyyy", "MMM", "MMMM", "EEE", "EEEE", "u", "D", "w", "W", "F", "a", "hh:mm", "kk", "K", "SSSS", "z", "zzzz", "Z",
            "X", "XXX", "YYYY", "G", "L", "''yyyy''", "'T'HH", "y", "MM'/'dd", "d.M.", "'", "XXXX")),
    ],
    "ValueToKey": [
        {"fields": "a"}, {"fields": "a,b"}, {"fields": "none"}, {"fields": ""}, {}, {"fields": "a,a"},
        {"fields": "a,b", "replace.null.with.default": "false"},
    ],
}  # fmt: skip
BOTH = {
    "Cast", "ExtractField", "Flatten", "HeaderFrom", "HoistField", "InsertField", "MaskField", "ReplaceField",
    "SetSchemaMetadata", "TimestampConverter",
}  # fmt: skip


def cases(name: str) -> list[tuple[str, dict[str, str], list[ConnectRecord]]]:
    found = []
    for number, config in enumerate(CONFIGS[name]):
        if name in BOTH:
            found.append((f"{KAFKA}{name}$Value", config, records()))
            if number % 3 == 0:
                found.append((f"{KAFKA}{name}$Key", config, records(of_key=True)))
        else:
            found.append((KAFKA + name, config, records()))
    return found


def ours(case: tuple[str, dict[str, str], list[ConnectRecord]]) -> list[Any]:
    name, config, given = case
    transform = transform_of(name, "transforms.x.type")
    try:
        transform.configure(config)
    except ConfigError as error:
        return [("error", "ConfigException", error.message)]
    answers: list[Any] = []
    for record in given:
        try:
            answers.append(transform.apply(record))
        except ConnectError as error:
            answers.append(("error", type(error).__name__, error.message))
    return answers


#: What Java says by a message of its own about a mistake of Kafka's, where we say it in a sentence.
JAVA_MISTAKES = ("java.lang.NullPointerException", "java.lang.ClassCastException")


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[list[Any]]]:
    """All at once: starting Java takes longer than the answers."""
    given = [(name, case) for name in sorted(CONFIGS) for case in cases(name)]
    answers = ask([("transform", case) for _, case in given])
    found: dict[str, list[list[Any]]] = {}
    for (name, _), answer in zip(given, answers, strict=True):
        found.setdefault(name, []).append(answer)
    return found


@pytest.mark.parametrize("name", sorted(CONFIGS))
def test_same_records_or_same_message(name: str, theirs: dict[str, list[list[Any]]]) -> None:
    wrong = differences(name, theirs[name])
    assert not wrong, report(wrong)


def differences(name: str, theirs: list[list[Any]]) -> list[Any]:
    wrong: list[Any] = []
    for case, expected in zip(cases(name), theirs, strict=True):
        found = ours(case)
        given: list[Any] = case[2] if len(expected) == len(case[2]) else ["configure"]
        if len(found) == 1 and any(isinstance(each, tuple) and each[2] == found[0][2] for each in expected):
            continue  # what Kafka says of each record is said of the config
        if len(found) != len(expected):
            wrong.append((case[0], case[1], "configure", expected[0], found[0]))
            continue
        for record, one, other in zip(given, expected, found, strict=True):
            if not same(one, other):
                wrong.append((case[0], case[1], str(record), one, other))
    return wrong


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, tuple) and "fromIndex(0) > toIndex(-1)" in theirs[2]:
        return True  # an empty path in V2
    if isinstance(ours, tuple) and "between the years 1 and 9999" in ours[2]:
        return True  # Python's datetime knows no others
    if isinstance(theirs, tuple) and isinstance(ours, tuple):
        shows_java = "java.lang.IllegalArgumentException" in theirs[2] or "@" in theirs[2]
        return theirs[1] in JAVA_MISTAKES or shows_java or theirs[2] == ours[2]
    return comparable(theirs) == comparable(ours)


def report(wrong: list[Any]) -> str:
    lines = [f"{len(wrong)} differ"]
    for name, config, record, theirs, ours in wrong[:25]:
        lines.append(f"{name} {config}\n   {record}\n   theirs {show(theirs)}\n   ours   {show(ours)}")
    return "\n".join(lines)


def show(answer: Any) -> str:
    if isinstance(answer, ConnectRecord):
        return f"{answer} {answer.value_schema!r}"[:600]
    return str(answer)[:600]
