"""Every built-in connector can be found by its names and described."""

from __future__ import annotations

import importlib

import pytest

from ottla.connect.api import SinkConnector, SinkTask, SourceConnector, SourceTask
from ottla.connect.connectors import PLUGINS


@pytest.mark.parametrize("name", sorted(PLUGINS))
def test_a_connector_is_where_its_name_leads(name: str) -> None:
    module, _, attribute = PLUGINS[name].partition(":")
    found = getattr(importlib.import_module(module), attribute)
    assert issubclass(found, SourceConnector | SinkConnector)
    assert issubclass(found.task_class, SourceTask | SinkTask)
    assert issubclass(found, SourceConnector) == issubclass(found.task_class, SourceTask)
    assert found.summary
    for key in found.config_def.keys.values():
        assert key.documentation, f"{name}: {key.name} is not described"
        if not key.is_required and key.default is not None and key.validator is not None:
            key.validator(key.name, key.default)
