"""Random values from an Avro schema with `arg.properties` annotations, as in avro-random-generator.

Record number n depends only on the seed and on n. A task that resumes at n therefore continues with the same records.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ottla.connect.connectors.datagen import patterns
from ottla.connect.data import schema as schemas
from ottla.connect.data.schema import Schema, SchemaBuilder, SchemaType
from ottla.connect.data.struct import Struct
from ottla.connect.errors import ConnectError

#: Makes one value for the record with this number.
Maker = Callable[[random.Random, int], Any]

_PRIMITIVES = {
    "null": schemas.OPTIONAL_STRING,
    "boolean": schemas.BOOLEAN,
    "int": schemas.INT32,
    "long": schemas.INT64,
    "float": schemas.FLOAT32,
    "double": schemas.FLOAT64,
    "string": schemas.STRING,
    "bytes": schemas.BYTES,
}
_RANGES = {"int": (-(1 << 31), (1 << 31) - 1), "long": (-(1 << 63), (1 << 63) - 1)}
_LENGTH = {"min": 8, "max": 16}


class Generator:
    def __init__(self, avro: str | Mapping[str, Any], seed: int) -> None:
        if isinstance(avro, str):
            try:
                avro = json.loads(avro)
            except ValueError as error:
                raise ConnectError(f"The schema is not JSON: {error}.") from None
        self._named: dict[str, tuple[Schema, Maker]] = {}
        self.schema, self._make = self._build(avro)
        if self.schema.type is not SchemaType.STRUCT:
            raise ConnectError(f"The schema has to be a record, not {self.schema.type.value}.")
        self._seed = seed

    def generate(self, number: int) -> Struct:
        made: Struct = self._make(random.Random(f"{self._seed}/{number}"), number)
        return made

    def _build(self, avro: Any) -> tuple[Schema, Maker]:
        if isinstance(avro, list):
            return self._union(avro)
        if isinstance(avro, str):
            avro = {"type": avro}
        if not isinstance(avro, Mapping) or "type" not in avro:
            raise ConnectError(f"The schema has something that is no type: {json.dumps(avro)}.")
        kind, how = avro["type"], avro.get("arg.properties", {})
        if isinstance(kind, Mapping | list):
            return self._build(kind)
        if kind in ("record", "enum"):
            return self._record(avro) if kind == "record" else self._enum(avro, how)
        if kind == "array":
            schema, make = self._build(avro["items"])
            length = _length(how)
            return schemas.array(schema), lambda chance, n: [make(chance, n) for _ in range(length(chance))]
        if kind == "map":
            return self._map(avro, how)
        if kind in self._named:
            return self._named[kind]
        if kind not in _PRIMITIVES:
            raise ConnectError(
                f"The schema has the type {kind!r}, which does not exist or cannot be made up."
            )
        return _PRIMITIVES[kind], _primitive(kind, how)

    def _union(self, branches: Sequence[Any]) -> tuple[Schema, Maker]:
        real = [each for each in branches if each != "null" and each != {"type": "null"}]
        if len(real) != 1:
            raise ConnectError("A union can be made up only of one type and null.")
        schema, make = self._build(real[0])
        if len(real) == len(branches):
            return schema, make
        how = real[0].get("arg.properties", {}) if isinstance(real[0], Mapping) else {}
        odds = float(how.get("odds", 0.5)) if schema.type is not SchemaType.BOOLEAN else 0.5
        return schema.as_optional(), lambda chance, n: make(chance, n) if chance.random() < odds else None

    def _record(self, avro: Mapping[str, Any]) -> tuple[Schema, Maker]:
        builder = SchemaBuilder(_full_name(avro))
        makers: list[Maker] = []
        for each in avro.get("fields", ()):
            schema, make = self._build(each["type"])
            builder.field(each["name"], schema)
            makers.append(make)
        whole = builder.build()

        def record(chance: random.Random, number: int) -> Struct:
            struct = Struct(whole)
            struct.values = [make(chance, number) for make in makers]
            return struct

        return self._keep(avro, whole, record)

    def _enum(self, avro: Mapping[str, Any], how: Mapping[str, Any]) -> tuple[Schema, Maker]:
        symbols = how.get("options") or avro["symbols"]
        named = Schema(SchemaType.STRING, parameters={"io.confluent.connect.avro.Enum": _full_name(avro)})
        return self._keep(avro, named, lambda chance, _: chance.choice(symbols))

    def _map(self, avro: Mapping[str, Any], how: Mapping[str, Any]) -> tuple[Schema, Maker]:
        schema, make = self._build(avro["values"])
        length, key = _length(how), _primitive("string", how.get("keys", {}))

        def mapping(chance: random.Random, number: int) -> dict[str, Any]:
            return {key(chance, number): make(chance, number) for _ in range(length(chance))}

        return schemas.mapping(schemas.STRING, schema), mapping

    def _keep(self, avro: Mapping[str, Any], schema: Schema, make: Maker) -> tuple[Schema, Maker]:
        self._named[avro["name"]] = self._named[_full_name(avro)] = schema, make
        return schema, make


def _full_name(avro: Mapping[str, Any]) -> str:
    name, space = avro.get("name"), avro.get("namespace")
    if not name:
        raise ConnectError(f"A {avro['type']} in the schema has no name.")
    return f"{space}.{name}" if space else str(name)


def _length(how: Mapping[str, Any]) -> Callable[[random.Random], int]:
    length = how.get("length", _LENGTH)
    if isinstance(length, int):
        return lambda _: length
    return lambda chance: chance.randrange(int(length.get("min", 0)), max(int(length["max"]), 1))


def _primitive(kind: str, how: Mapping[str, Any]) -> Maker:
    if "options" in how:
        options = how["options"]
        return lambda chance, _: chance.choice(options)
    if "iteration" in how:
        return _iteration(kind, how["iteration"], how)
    if kind == "null":
        return lambda *_: None
    if kind == "boolean":
        odds = float(how.get("odds", 0.5))
        return lambda chance, _: chance.random() < odds
    if kind in ("int", "long"):
        low, high = _RANGES[kind]
        given = how.get("range", {})
        low, high = int(given.get("min", low)), int(given.get("max", high))
        _ordered(low, high)
        return lambda chance, _: chance.randrange(low, high)
    if kind in ("float", "double"):
        given = how.get("range", {"min": 0.0, "max": 1.0})
        start, end = float(given.get("min", 0.0)), float(given.get("max", 1.0))
        _ordered(start, end)
        return lambda chance, _: chance.uniform(start, end)
    if kind == "string" and "regex" in how:
        text = patterns.maker(how["regex"])
        return lambda chance, _: text(chance)
    length = _length(how)
    if kind == "bytes":
        return lambda chance, _: chance.randbytes(length(chance))
    return lambda chance, _: "".join(chance.choices(string.ascii_lowercase, k=length(chance)))


def _ordered(low: float, high: float) -> None:
    if low >= high:
        raise ConnectError(f"A range in the schema begins at {low} and ends before {high}.")


def _iteration(kind: str, iteration: Mapping[str, Any], how: Mapping[str, Any]) -> Maker:
    """Count from `start` by `step`, and start over at `restart`."""
    if kind == "boolean":
        start = bool(iteration.get("start", False))
        return lambda _, number: start ^ bool(number % 2)
    start, step = iteration.get("start", 0), iteration.get("step", 1)
    restart = iteration.get("restart")
    if restart is not None and (not step or (restart - start) / step <= 0):
        raise ConnectError(f"An iteration from {start} by {step} in the schema never reaches {restart}.")
    rounds = None if restart is None else -(-(restart - start) // step)

    def count(_: random.Random, number: int) -> Any:
        found = start + step * (number if rounds is None else number % int(rounds))
        return f"{how.get('prefix', '')}{found}{how.get('suffix', '')}" if kind == "string" else found

    return count
