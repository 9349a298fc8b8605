"""The setting descriptions are true: every setting that the broker reads is known, and unused ones say so."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

import ottla
from ottla.metadata.configs.broker_config import BrokerConfig
from ottla.metadata.configs.broker_config_table import BROKER_CONFIGS, has_effect
from ottla.metadata.configs.group_configs import GROUP_BOUNDS, GROUP_SYNONYMS
from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS, TOPIC_SYNONYMS

# The packages and modules of a broker.
ROOMS = ("broker", "cluster", "coordinator", "log", "metadata", "zookeeper")
# Code that documents settings, stores them in znodes and files, or translates those of other images.
ASIDE = ("broker_config_table", "configuration.py", "environment.py", "meta_properties.py")
READS = {
    "get",
    "get_int",
    "get_float",
    "get_bool",
    "get_str",
    "get_list",
    "get_optional_int",
    "get_optional_str",
}


def parsed(path: Path) -> ast.Module:
    try:
        return ast.parse(path.read_text())
    except SystemError:  # Python 3.11 fails if another thread parses at the same time
        return ast.parse(path.read_text())


@functools.cache
def sources() -> list[ast.Module]:
    root = Path(ottla.__file__).parent
    return [
        parsed(path)
        for room in ROOMS
        for path in (root / f"{room}.py", *(root / room).rglob("*.py"))
        if path.is_file() and not path.name.startswith(ASIDE)
    ]


def test_every_setting_that_is_read_is_known():
    read = {
        node.args[0].value
        for source in sources()
        for node in ast.walk(source)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in READS
        and node.args
        and isinstance(node.args[0], ast.Constant)
        and isinstance(node.args[0].value, str)
        and "." in node.args[0].value
    }
    assert len(read) > 80
    assert read <= BROKER_CONFIGS.keys() | TOPIC_CONFIGS.keys()


def test_a_setting_has_an_effect_if_something_reads_it():
    """Either directly or as the default of a topic or group config. A setting in use must leave the unused list."""
    written = {
        node.value
        for source in sources()
        for node in ast.walk(source)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    defaults = {synonym.name for synonyms in TOPIC_SYNONYMS.values() for synonym in synonyms}
    for name in GROUP_SYNONYMS:
        defaults |= {GROUP_SYNONYMS[name], *filter(None, GROUP_BOUNDS[name])}
    for name in BROKER_CONFIGS:
        assert has_effect(name) == (name in written or name in defaults), name


@pytest.mark.parametrize("name", ["principal.builder.class", "num.io.threads"])
def test_setting_what_has_no_effect_is_a_warning(name):
    config = BrokerConfig({name: "1"})
    assert config.warnings == [f"{name} is a setting of Kafka that Ottla does not use; it is ignored."]
