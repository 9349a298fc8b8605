"""Promise: the same config gives the same records, or the same message, as Kafka's own transforms."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.connect.data.record import ConnectRecord, SourceRecord
from ottla.connect.errors import ConnectError
from ottla.connect.transforms.chain import transform_of
from tests.connect.oracle.records import records
from tests.connect.oracle.running import ask, comparable

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

DATE_TEXTS = (
    "2024-02-29 13:05:59", "2024-02-29", "20240229130559", "2024-2-9", "24-02-29", "1-1-1", "2024-13-45", " 2024-02-29", "2024-02-29x",
    "29 Feb 2024", "29 february 2024", "Thu, 29 Feb 2024 13:05:59 GMT", "Thu Feb 29 13:05:59 UTC 2024", "2024-02-29T13:05:59Z",
    "2024-02-29T13:05:59.5Z", "2024-02-29T13:05:59+01:00", "2024-02-29T13:05:59-0800", "2024-02-29T13:05:59+1", "01:05 PM", "12:00 am",
    "13:05", "2024 060", "060", "", "x", "-5", "2024-W09", "Thursday", "1 BC", "2024-02-29 13:05:59 PST", "2024-02-29 Europe/Vienna",
    "99", "1969-12-31 23:59:59.999", "0001-01-01", "2024/02/29", "2024-02-29  13:05:59", "24", "12", "0", "07",
)  # fmt: skip
DATE_FORMATS = (
    "yyyy-MM-dd HH:mm:ss", "yyyy-MM-dd", "yyyyMMddHHmmss", "yy-MM-dd", "d MMM yyyy", "dd MMMM yyyy", "EEE, d MMM yyyy HH:mm:ss z",
    "EEE MMM dd HH:mm:ss z yyyy", "yyyy-MM-dd'T'HH:mm:ssX", "yyyy-MM-dd'T'HH:mm:ss.SX", "yyyy-MM-dd'T'HH:mm:ssXXX",
    "yyyy-MM-dd'T'HH:mm:ssXX", "yyyy-MM-dd'T'HH:mm:ssZ", "hh:mm a", "KK:mm a", "HH:mm", "kk:mm", "yyyy DDD", "DDD", "y G", "EEEE",
    "yyyy-MM-dd HH:mm:ss z", "yyyy-MM-dd z", "yy", "H", "k", "h", "yyyy-MM-dd HH:mm:ss.SSS", "yyyy/MM/dd", "M", "S", "yyyyMM", "yyMMdd",
)  # fmt: skip
TOPICS = (
    "",
    "a",
    "A",
    "ab",
    "a.b",
    "a-b_c",
    "orders-2024",
    "x1y2",
    "é",
    "a b",
    "a\nb",
    "aaa",
    "__x",
    "a[0]",
    "{}",
    "0",
)
PATTERNS = (
    "a", "(?i)a.*", ".*", "[a-c]+", "[^a-c]+", "[a-z&&[^b]]+", "[a-z&&[b-d]&&[^c]]*", "[a[bc]]+", "[\\w.-]+", "\\w+-(\\d{4})", "(a)(b)?",
    "(?<n>a+)", "(a)\\1*", "a++", "a*+a", "(?>a*)a", "\\Qa.b\\E", "\\p{Lower}+", "\\P{Lower}+", "\\p{L}+", "\\p{Alnum}+", "\\p{IsAlphabetic}+",
    "\\h+|a\\hb", "a\\R?b", "^a$", "\\Aa\\z", "a|b|", "(?:a|(?i)b)+", "x(?=1).*", "(?!a).*", ".*(?<=c)", "\\bab\\b", "[\\d-x]+", "[]a]", "[a-]+",
    "a{2,}", "a{3}", "\\x61", "\\x{61}", "\\u0061", "\\0141", "a{", "[", "(?", "\\", "*a", "(?<1a>b)", "\\k<n>", "[z-a]", "a{2,1}", "(?x) a b", "a]",
    "a}", "(?s).+", ".+", "[[:alpha:]]+", "(?-i)a", "\\e|a", "\\cA|a", "[&&a]", "[a&&]", "\\d+|\\D+", "\\S*",
)  # fmt: skip
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


LAST_MILLIS = 253402300799999  # end of the year 9999

#: Cases in which Java reports a bug of Kafka's in its own words, and Ottla gives a sentence.
JAVA_MISTAKES = ("java.lang.NullPointerException", "java.lang.ClassCastException")


def text_cases() -> list[tuple[str, dict[str, str], list[ConnectRecord]]]:
    """Return cases of parsed dates and regular expressions."""
    dates: list[ConnectRecord] = [SourceRecord("t", each) for each in DATE_TEXTS]
    topics: list[ConnectRecord] = [SourceRecord(each, 1) for each in TOPICS]
    found = [
        (f"{KAFKA}TimestampConverter$Value", {"target.type": "unix", "format": each}, dates)
        for each in DATE_FORMATS
    ]
    found += [(f"{KAFKA}RegexRouter", {"regex": each, "replacement": "<$0>"}, topics) for each in PATTERNS]
    return found


def test_dates_and_regular_expressions_have_javas_meaning() -> None:
    given = text_cases()
    wrong = compared(given, ask([("transform", case) for case in given]))
    assert not wrong, report(wrong)


@pytest.fixture(scope="module")
def theirs() -> dict[str, list[list[Any]]]:
    """Run all cases at once, because starting Java takes longer than running them."""
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
    return compared(cases(name), theirs)


def compared(given: list[Any], theirs: list[list[Any]]) -> list[Any]:
    wrong: list[Any] = []
    for case, expected in zip(given, theirs, strict=True):
        found = ours(case)
        records_of: list[Any] = case[2] if len(expected) == len(case[2]) else ["configure"]
        if len(found) == 1 and any(isinstance(each, tuple) and each[2] == found[0][2] for each in expected):
            continue  # Kafka reports per record, Ottla for the config
        if len(found) != len(expected):
            wrong.append((case[0], case[1], "configure", expected[0], found[0]))
            continue
        for record, one, other in zip(records_of, expected, found, strict=True):
            if not same(one, other):
                wrong.append((case[0], case[1], str(record), one, other))
    return wrong


def same(theirs: Any, ours: Any) -> bool:
    if isinstance(theirs, tuple) and "fromIndex(0) > toIndex(-1)" in theirs[2]:
        return True  # an empty path in V2
    if (
        isinstance(theirs, ConnectRecord)
        and isinstance(theirs.value, int)
        and abs(theirs.value) > LAST_MILLIS
    ):
        return True  # texts that are not dates, where Java's numbers overflow
    if isinstance(ours, tuple) and "between the years 1 and 9999" in ours[2]:
        return True  # Python's datetime has no other years
    if isinstance(theirs, tuple) and isinstance(ours, tuple):
        if "Invalid regex: " in theirs[2]:  # Python describes the position in its own words
            return "Invalid regex: " in ours[2]
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
