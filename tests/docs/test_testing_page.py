"""The Python code in docs/how-to/test-with-ottla.md runs as printed."""

from __future__ import annotations

from typing import Any

from tests.docs.terminals import blocks

STARTED, SECURED, FIXTURE = blocks("how-to/test-with-ottla.md", "python")


def test_a_broker_and_a_secured_broker_start() -> None:
    names: dict[str, Any] = {}
    exec(STARTED, names)
    exec(SECURED, names)
    names["consumer"].close()


def test_the_fixture_configures_the_brokers() -> None:
    names: dict[str, Any] = {}
    exec(FIXTURE, names)
    assert "ottla_broker_config" in names
