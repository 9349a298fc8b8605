"""Tools of Kafka that Ottla does not have yet: each says so by its name instead of not being found."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from ottla.cli.errors import JobError
from ottla.cli.kafka import tool

_PIPELINES = "pipelines of Ottla run on Spark, see `ottla.spark`"


def _not_yet(name: str, meanwhile: str) -> Callable[[], NoReturn]:
    def run(_argv: list[str]) -> NoReturn:
        raise JobError(f"{name} is not part of Ottla yet and comes later: {meanwhile}.")

    return tool.entry_point()(run)


connect_plugin_path = _not_yet("connect-plugin-path", _PIPELINES)
