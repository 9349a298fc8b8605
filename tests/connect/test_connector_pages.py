"""The connector pages: setting tables match the code, examples are valid, and links work."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

from ottla.connect.connectors import PLUGINS
from ottla.connect.plugins import load_class

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "docs" / "reference" / "connect" / f"{name}.md"
    for name in (
        "datagen",
        "delta",
        "elasticsearch",
        "files",
        "http",
        "iceberg",
        "jdbc-sink",
        "jdbc-source",
        "mqtt",
        "mysql-cdc",
        "postgres-cdc",
        "redis",
        "spooldir",
        "syslog",
        "verifiable",
    )
]


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "connector_settings", ROOT / "scripts" / "connector_settings.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_the_tables_are_up_to_date(page: Path, script: ModuleType) -> None:
    text = page.read_text()
    assert script.up_to_date(text) == text, "run python scripts/connector_settings.py --write"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_the_examples_are_accepted_by_the_definitions(page: Path) -> None:
    examples = re.findall(r"```properties\n(.*?)```", page.read_text(), re.DOTALL)
    assert examples
    for example in examples:
        config = dict(line.split("=", 1) for line in example.splitlines())
        connector = load_class(config["connector.class"])
        assert connector.config_def.errors(config) == {}
        known = set(connector.config_def.keys)
        for name in config:
            common = name.startswith(
                (
                    "name",
                    "topics",
                    "tasks.",
                    "key.conv",
                    "value.conv",
                    "connector.",
                    "iceberg.catalog.",
                    "delta.storage.",
                )
            )
            assert common or name in known or not known, (
                f"{page.name}: {name} is no setting of {config['connector.class']}"
            )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.stem))
def test_each_page_says_what_delivery_is(page: Path) -> None:
    assert re.search(r"\*\*Delivery[^*]*\*\*", page.read_text())


@pytest.mark.parametrize(
    "page", [*PAGES, ROOT / "docs" / "how-to" / "write-a-connector.md"], ids=lambda page: str(page.stem)
)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), target


def test_every_connector_is_on_a_page() -> None:
    text = "".join(page.read_text() for page in PAGES)
    own = [name for name, target in PLUGINS.items() if not re.search(r"\.file_stream", target)]
    for name in own:
        assert name.rpartition(".")[2] in text, name
