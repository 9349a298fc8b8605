"""Promise: unforeseen inputs match as well. Random schemas, values, texts and chains, with fixed seeds."""

from __future__ import annotations

import datetime as dt
import json
import random
import re
from typing import Any

import pytest

from ottla.connect.data import logical
from ottla.connect.data.record import ConnectRecord, SinkRecord, SourceRecord
from ottla.connect.data.schema import Field, Schema, SchemaType
from ottla.connect.data.struct import Struct
from tests.connect.oracle import test_converters as converters
from tests.connect.oracle import test_transforms as transforms
from tests.connect.oracle.running import ask

pytestmark = [pytest.mark.peers, pytest.mark.timeout(600)]

NAMES = ("a", "b", "c", "ts", "x.y", "ü", "", "a b")[:6]
TEXTS = ("", "x", "12", "-1.5", "true", "2024-02-29", "é\u2028", '"\\\x01', "😀", "NaN", "1e3", " 7 ")
PRIMITIVES = [each for each in SchemaType if each.is_primitive]


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


class Maker:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def schema(self, depth: int = 0) -> Schema:
        draw = self.random
        kind = draw.choice(
            PRIMITIVES
            if depth > 2
            else [*PRIMITIVES, SchemaType.ARRAY, SchemaType.MAP, *[SchemaType.STRUCT] * 4]
        )
        about: dict[str, Any] = {"optional": draw.random() < 0.3}
        if kind is SchemaType.INT32 and draw.random() < 0.3:
            about |= {"name": draw.choice((logical.DATE, logical.TIME)), "version": 1}
        elif kind is SchemaType.INT64 and draw.random() < 0.4:
            about |= {"name": logical.TIMESTAMP, "version": 1}
        elif kind is SchemaType.BYTES and draw.random() < 0.5:
            about |= {
                "name": logical.DECIMAL,
                "version": 1,
                "parameters": {"scale": str(draw.randint(-2, 5))},
            }
        elif draw.random() < 0.3:
            about |= {"name": draw.choice(("N", "org.N")), "version": draw.choice((None, 3))}
        if draw.random() < 0.1:
            about["doc"] = draw.choice(TEXTS)
        if "parameters" not in about and draw.random() < 0.1:
            about["parameters"] = {"p": draw.choice(TEXTS)}
        if kind is SchemaType.STRUCT:
            names = draw.sample(NAMES, draw.randint(0, 4))
            about["fields"] = tuple(Field(name, i, self.schema(depth + 1)) for i, name in enumerate(names))
        elif kind is SchemaType.ARRAY:
            about["value_schema"] = self.schema(depth + 1)
        elif kind is SchemaType.MAP:
            key = Schema(draw.choice((SchemaType.STRING, SchemaType.STRING, SchemaType.INT32)))
            about |= {"key_schema": key, "value_schema": self.schema(depth + 1)}
        schema = Schema(kind, **about)
        if kind.is_primitive and draw.random() < 0.2:
            about["default"] = self.value(schema.as_optional(False))
            schema = Schema(kind, **about)
        return schema

    def value(self, schema: Schema) -> Any:
        draw = self.random
        if schema.optional and draw.random() < 0.3:
            return None
        if schema.name == logical.DATE:
            return dt.date.fromordinal(draw.randint(600_000, 800_000))
        if schema.name == logical.TIME:
            return logical.time_from_millis(draw.randint(0, 86_399_999))
        if schema.name == logical.TIMESTAMP:
            return logical.timestamp_from_millis(draw.randint(-(10**13), 10**14))
        if schema.name == logical.DECIMAL:
            return logical.decimal_of(
                draw.randint(-(10 ** draw.randint(0, 25)), 10**20), logical.scale_of(schema)
            )
        bits = {SchemaType.INT8: 7, SchemaType.INT16: 15, SchemaType.INT32: 31, SchemaType.INT64: 63}.get(
            schema.type
        )
        if bits is not None:
            return draw.choice((0, -1, (1 << bits) - 1, -(1 << bits), draw.randint(-100, 100)))
        if schema.type in (SchemaType.FLOAT32, SchemaType.FLOAT64):
            return self.number()
        if schema.type is SchemaType.ARRAY:
            assert schema.value_schema is not None
            return [self.value(schema.value_schema) for _ in range(draw.randint(0, 3))]
        if schema.type is SchemaType.MAP:
            assert schema.key_schema is not None
            assert schema.value_schema is not None
            return {
                self.value(schema.key_schema): self.value(schema.value_schema)
                for _ in range(draw.randint(0, 3))
            }
        if schema.type is SchemaType.STRUCT:
            return Struct.of(schema, [self.value(each.schema) for each in schema.fields])
        if schema.type is SchemaType.BOOLEAN:
            return draw.random() < 0.5
        return draw.randbytes(draw.randint(0, 5)) if schema.type is SchemaType.BYTES else draw.choice(TEXTS)

    def number(self) -> float:
        draw = self.random
        return draw.choice(
            (
                0.0,
                1.0,
                draw.uniform(-10, 10),
                draw.uniform(-1, 1) * 10.0 ** draw.randint(-30, 30),
                round(draw.uniform(0, 1000), 2),
            )
        )

    def plain(self, depth: int = 0) -> Any:
        draw = self.random
        kind = draw.randint(0, 9 if depth < 3 else 6)
        if kind <= 1:
            return draw.choice(TEXTS)
        if kind <= 3:
            return draw.choice((0, -1, draw.randint(-(2**63), 2**63 - 1), draw.randint(-300, 300)))
        if kind == 4:
            return self.number()
        if kind == 5:
            return draw.choice((None, True, False))
        if kind == 6:
            return draw.randbytes(2)
        if kind == 7:
            return [self.plain(depth + 1) for _ in range(draw.randint(0, 3))]
        return {name: self.plain(depth + 1) for name in draw.sample(NAMES, draw.randint(0, 4))}

    def text(self) -> bytes:
        """Return JSON with a few characters changed."""
        document = json.dumps(self.json(), ensure_ascii=self.random.random() < 0.5).encode()
        letters = bytearray(document)
        for _ in range(self.random.choice((0, 0, 1, 1, 2))):
            at = self.random.randrange(len(letters) + 1)
            change = self.random.choice(b'{}[]",:0123456789.-+eEtfnul \\\n\tx\xc3')
            if self.random.random() < 0.5 and at < len(letters):
                letters[at] = change
            else:
                letters[at:at] = bytes([change])
        written = bytes(letters)
        # Java does not return lone surrogates unchanged. It also treats trailing text and long exponents differently.
        odd = re.search(rb"ud[89a-f]|[eE][+-]?[0-9]{4}", written) or not _is_utf8(written)
        return self.text() if odd else written

    def json(self) -> Any:
        value = self.plain()
        return json.loads(
            json.dumps(value, default=lambda each: each.hex()).replace("NaN", "1").replace("Infinity", "1")
        )


def test_random_values_are_written_and_read_as_kafka_does() -> None:
    maker = Maker(1)
    cases = []
    for config in (
        {},
        {"schemas.enable": "false"},
        {"decimal.format": "NUMERIC", "replace.null.with.default": "false"},
    ):
        values: list[tuple[str, Any, Any]] = []
        for _ in range(700):
            schema = maker.schema()
            values.append(("from", schema, maker.value(schema)))
        values += [("from", None, maker.plain()) for _ in range(300)]
        cases.append((converters.JSON, config, values))
    written = ask([("convert", case) for case in cases])
    check(cases, written)
    again = [
        (name, config, [("to", None, each) for each in answers if isinstance(each, bytes)])
        for (name, config, _), answers in zip(cases, written, strict=True)
    ]
    again.append(
        (converters.JSON, {"schemas.enable": "false"}, [("to", None, maker.text()) for _ in range(3000)])
    )
    check(again, ask([("convert", case) for case in again]))


def check(cases: list[Any], theirs: list[list[Any]]) -> None:
    wrong = converters.compared(cases, theirs)
    lines = (f"{each}\n   theirs {one}\n   ours   {other}" for each, one, other in wrong[:10])
    assert not wrong, f"{len(wrong)} differ\n" + "\n".join(lines)


def test_random_records_through_all_transforms() -> None:
    maker = Maker(2)
    cases = []
    for name, configs in transforms.CONFIGS.items():
        for config in maker.random.sample(configs, min(len(configs), 8)):
            part = maker.random.choice(("$Key", "$Value")) if name in transforms.BOTH else ""
            records: list[ConnectRecord] = []
            for _ in range(40):
                schema = None if maker.random.random() < 0.3 else maker.schema()
                value = maker.plain() if schema is None else maker.value(schema)
                about: dict[str, Any] = {
                    "topic": maker.random.choice(("orders-1", "t")),
                    "timestamp": 1709211959123,
                }
                of_key = part == "$Key"
                about |= (
                    {"key": value, "key_schema": schema}
                    if of_key
                    else {"value": value, "value_schema": schema}
                )
                if maker.random.random() < 0.5:
                    records.append(
                        SinkRecord(
                            **about,
                            partition=3,
                            offset=42,
                            original_topic=about["topic"],
                            original_partition=3,
                        )
                    )
                else:
                    records.append(SourceRecord(**about))
            cases.append((transforms.KAFKA + name + part, config, records))
    wrong = transforms.compared(cases, ask([("transform", case) for case in cases]))
    assert not wrong, transforms.report(wrong)
