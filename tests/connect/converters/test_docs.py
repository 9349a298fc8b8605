"""The examples on the converters page run as shown, and the page lists every setting."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.converters import PLUGINS, load_converter
from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.converters.loading import load_class
from ottla.properties import parse_properties

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "connect" / "converters.md").read_text()
EXAMPLE = re.compile(r"```properties\n([^`]*?)```\n\n```text\n(.*?)```", re.DOTALL)


def examples() -> list[Any]:
    found = []
    for properties, lines in EXAMPLE.findall(PAGE):
        config = {each.key: each.value for each in parse_properties(properties)}
        for line in lines.splitlines():
            value, _, written = line.partition(" => ")
            found.append(pytest.param(config, json.loads(value), ast.literal_eval(written), id=line))
    return found


@pytest.mark.parametrize(("config", "value", "written"), examples())
def test_the_example_does_what_it_shows(config: dict[str, str], value: Any, written: bytes | None) -> None:
    role = "header" if "header.converter" in config else "value"
    schema = None
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        reader = JsonConverter()
        reader.configure({})
        schema, value = reader.to_connect("t", json.dumps(value).encode())
    converter = load_converter(config, {}, role)
    assert converter.from_connect_header("t", "h", schema, value) == written
    assert converter.to_connect_header("t", "h", written)[1] in (
        value,
        written and written.decode("utf-8", "replace"),
    )


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_every_class_and_setting_is_on_the_page(name: str) -> None:
    assert name.rpartition(".")[2] in PAGE
    for key in load_class(name, PLUGINS, "").config_def.keys.values():
        assert key.documentation
        assert key.name == "converter.type" or f"| `{key.name}` |" in PAGE


def test_a_converter_of_ones_own(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    import types

    [code] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    module = types.ModuleType("own")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "own", module)
    converter = load_converter({"key.converter": "own:UpperCase"}, {}, "key")
    assert converter.from_connect("t", None, "a") == b"A"
    assert converter.to_connect("t", b"A") == (None, "a")
