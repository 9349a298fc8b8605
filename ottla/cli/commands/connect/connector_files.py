"""Connector configs in files: properties, or JSON as for the REST API."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from ottla.cli.errors import JobError


class ConnectorFile(NamedTuple):
    config: Mapping[str, str]
    #: RUNNING, PAUSED or STOPPED; only JSON can say it.
    initial_state: str | None = None


def read_connector_file(file: Path) -> ConnectorFile:
    """Raises JobError."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read {file}: {reason}.") from None
    if not text.lstrip().startswith("{"):
        from ottla.cli.properties import parse_properties

        return ConnectorFile(parse_properties(text))
    try:
        found = json.loads(text)
    except ValueError as error:
        raise JobError(f"{file} is not JSON: {error}.") from None
    config = found.get("config", found) if isinstance(found.get("config", found), dict) else None
    if config is None:
        raise JobError(f"{file}: config must be an object of settings.")
    made = {
        key: value if isinstance(value, str) else json.dumps(value)
        for key, value in config.items()
        if value is not None
    }
    if found.get("name") is not None:
        made["name"] = str(found["name"])
    state = found.get("initial_state") if config is not found else None
    return ConnectorFile(made, None if state is None else str(state))
