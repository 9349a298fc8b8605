"""File formats: JSON lines, Avro, Parquet, and raw bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.connect.connectors.files.formats.base import Format
from ottla.connect.errors import ConnectError

_MODULES = {
    "JsonFormat": "json_lines",
    "AvroFormat": "avro",
    "ParquetFormat": "parquet",
    "ByteArrayFormat": "byte_array",
}


def open_format(settings: Mapping[str, Any]) -> Format:
    """Choose the format by Confluent's class name, ignoring the package (`….s3.format.json.JsonFormat`)."""
    import importlib

    name = str(settings["format.class"]).rpartition(".")[2]
    if name not in _MODULES:
        raise ConnectError(
            f"There is no format.class {settings['format.class']!r}. There are: {', '.join(_MODULES)}."
        )
    found: Format = getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)(settings)
    return found
