"""Configs of connectors in files: properties, or JSON as the REST API takes it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from ottla.cli.errors import JobError


def read_connector_file(file: Path) -> Mapping[str, str]:
    """Raises JobError."""
    try:
        text = file.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
        raise JobError(f"Cannot read {file}: {reason}.") from None
    if not text.lstrip().startswith("{"):
        from ottla.cli.properties import parse_properties

        return parse_properties(text)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise JobError(f"{file} is not JSON: {error}.") from None
    config = found.get("config", found) if isinstance(found.get("config", found), dict) else None
    if config is None:
        raise JobError(f"{file}: config must be an object of settings.")
    name = found.get("name")
    made = {key: value if isinstance(value, str) else json.dumps(value) for key, value in config.items()}
    return {**made, **({"name": str(name)} if name is not None else {})}
