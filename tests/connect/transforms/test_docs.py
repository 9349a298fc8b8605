"""The examples on the transforms and interceptors pages run as shown, and the pages list every setting."""

from __future__ import annotations

import json
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

from ottla.connect.converters.json_converter import JsonConverter
from ottla.connect.converters.loading import load_class
from ottla.connect.data.record import ConnectRecord, Header, SourceRecord
from ottla.connect.transforms import INTERCEPTORS, PLUGINS, PREDICATES, Chain
from ottla.properties import parse_properties

DOCS = Path(__file__).parents[3] / "docs" / "reference" / "connect"
EXAMPLE = re.compile(r"```properties\n(.*?)```\n\n```json\n(.*?)```", re.DOTALL)
ANYTHING = "…"


def examples() -> list[Any]:
    found = []
    for page in ("transforms.md", "interceptors.md"):
        for properties, lines in EXAMPLE.findall((DOCS / page).read_text()):
            config = {each.key: each.value for each in parse_properties(properties)}
            records = [json.loads(line) for line in lines.splitlines() if line.strip()]
            found.append(pytest.param(config, records, id=f"{page}-{config['transforms']}"))
    return found


def converter() -> JsonConverter:
    made = JsonConverter()
    made.configure({})
    return made


def record(example: dict[str, Any]) -> SourceRecord:
    headers = [Header(key, value) for key, value in example.get("headers", {}).items()]
    value, schema = example.get("value"), None
    if isinstance(value, dict) and value.keys() == {"schema", "payload"}:
        schema, value = converter().to_connect("t", json.dumps(value).encode())
    return SourceRecord(
        example.get("topic", "t"),
        key=example.get("key"),
        value=value,
        value_schema=schema,
        timestamp=example.get("timestamp"),
        headers=headers,
    )


def shown(found: ConnectRecord | None, like: dict[str, Any] | None) -> dict[str, Any] | None:
    if found is None:
        return None
    value = found.value
    if found.value_schema is not None:
        written = converter().from_connect("t", found.value_schema, value)
        value = json.loads(written or b"null")
    result = {"topic": found.topic, "key": found.key, "value": value, "timestamp": found.timestamp}
    result["headers"] = {each.key: each.value for each in found.headers}
    return {name: each for name, each in result.items() if name in (like or {})}


def masked(found: Any, like: Any) -> Any:
    """Mask the parts that the page shows as …."""
    if like == ANYTHING and found:
        return ANYTHING
    if isinstance(found, dict) and isinstance(like, dict):
        return {name: masked(each, like.get(name)) for name, each in found.items()}
    return found


@pytest.fixture(autouse=True)
def shop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The module shown on the page."""
    [code] = re.findall(
        r"```python\n# shop/rules.py\n(.*?)```", (DOCS / "transforms.md").read_text(), re.DOTALL
    )
    module = types.ModuleType("shop.rules")
    exec(code, module.__dict__)
    monkeypatch.setitem(sys.modules, "shop", types.ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.rules", module)


@pytest.mark.parametrize(("config", "records"), examples())
def test_the_example_does_what_it_shows(config: dict[str, str], records: list[Any]) -> None:
    chain = Chain.from_config(config)
    assert len(records) % 2 == 0
    for before, after in zip(records[::2], records[1::2], strict=True):
        assert masked(shown(chain.apply(record(before)), after), after) == after


@pytest.mark.parametrize("name", sorted(PLUGINS | PREDICATES))
def test_every_setting_is_on_the_page(name: str) -> None:
    page = "interceptors.md" if name.rpartition(".")[2] in INTERCEPTORS else "transforms.md"
    if name.startswith("io.debezium."):  # described on the CDC pages
        assert name in (DOCS / "postgres-cdc.md").read_text() or name in (DOCS / "mysql-cdc.md").read_text()
        return
    title = name.rpartition(".")[2].partition("$")[0]
    section = re.search(rf"^##+ {title}$(.*?)(?=^##|\Z)", (DOCS / page).read_text(), re.MULTILINE | re.DOTALL)
    assert section is not None, f"{title} has no section in {page}"
    for key in load_class(name, PLUGINS | PREDICATES, "").config_def.keys.values():
        assert f"| `{key.name}` |" in section[1]
        assert key.documentation
