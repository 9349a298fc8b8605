"""Promise: converters treat a column like its single records, which other tests compare with Kafka's converters."""

from __future__ import annotations

from typing import Any

import pytest

from ottla.connect.converters import load_converter
from ottla.connect.converters.converter import Converter
from ottla.connect.data.columns import MixedRecordsError
from ottla.connect.data.schema import Schema
from tests.connect.oracle.records import PLAIN, WITH_SCHEMA
from tests.connect.oracle.running import comparable
from tests.connect.oracle.test_converters import FROM, TO
from tests.connect.oracle.test_random import Maker

KAFKA = "org.apache.kafka.connect."
CONVERTERS: list[tuple[str, dict[str, str]]] = [
    ("storage.StringConverter", {}),
    ("storage.StringConverter", {"converter.encoding": "ISO-8859-1"}),
    ("converters.ByteArrayConverter", {}),
    ("json.JsonConverter", {}),
    ("json.JsonConverter", {"schemas.enable": "false"}),
    ("json.JsonConverter", {"decimal.format": "NUMERIC", "replace.null.with.default": "false"}),
    *((f"converters.{each}Converter", {}) for each in ("Integer", "Long", "Short", "Float", "Double", "Boolean")),
]  # fmt: skip


def _converter(name: str, settings: dict[str, str]) -> Converter:
    config = {f"value.converter.{key}": value for key, value in settings.items()}
    return load_converter({"value.converter": KAFKA + name, **config}, {}, "value")


def _batches() -> list[tuple[Schema | None, list[Any]]]:
    maker = Maker(23)
    found: list[tuple[Schema | None, list[Any]]] = [(schema, [value, value]) for schema, value in FROM]
    found += [(schema, [value, None, value]) for schema, value in WITH_SCHEMA]
    found += [(None, [each, None]) for each in PLAIN]
    for _ in range(100):
        schema = maker.schema()
        found.append((schema, [maker.value(schema) for _ in range(6)]))
    found += [(None, [maker.plain() for _ in range(6)]) for _ in range(50)]
    return found


@pytest.mark.parametrize(("name", "settings"), CONVERTERS)
def test_many_become_the_bytes_of_each(name: str, settings: dict[str, str]) -> None:
    one, many = _converter(name, settings), _converter(name, settings)
    written: list[bytes | None] = []
    for schema, values in _batches():
        try:
            expected: list[bytes | None] | None = [one.from_connect("t", schema, each) for each in values]
        except Exception:
            expected = None
        try:
            found: list[bytes | None] | None = many.all_from_connect("t", schema, values)
        except Exception:
            found = None
        assert found == expected, (schema, values)
        written += expected or []
    assert len(written) > 20
    _read_alike(one, many, written)


@pytest.mark.parametrize(("name", "settings"), CONVERTERS)
def test_bytes_of_all_kinds_are_read_alike(name: str, settings: dict[str, str]) -> None:
    one, many = _converter(name, settings), _converter(name, settings)
    _read_alike(one, many, [*TO, b"\x00", b"\x01", bytes(2), bytes(4), bytes(8), None])


def _read_alike(one: Converter, many: Converter, data: list[bytes | None]) -> None:
    for begin in range(len(data)):
        some = data[begin : begin + 3]
        try:
            pairs = [one.to_connect("t", each) for each in some]
        except Exception:
            # Converting one by one shows which record is bad.
            with pytest.raises(Exception):  # noqa: B017, PT011
                many.all_to_connect("t", some)
            continue
        try:
            schema, values = many.all_to_connect("t", some)
        except MixedRecordsError:
            assert any(each != pairs[0][0] for each, _ in pairs)
            continue
        assert comparable([(schema, each) for each in values]) == comparable(pairs)
