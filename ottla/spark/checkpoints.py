"""Checkpoints of streaming queries as they lie on disk: whose they are, and whether they are still there.

Spark writes the id of a query into its checkpoint when it is started first, and makes up a new one wherever there is
no checkpoint. So a query whose checkpoint is gone never comes back.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

_LOCAL = ("", "file")


def location(checkpoint: str) -> str:
    """Where a checkpoint is, so that every machine understands it: a local path with the name of this host."""
    parts = urlsplit(checkpoint)
    if parts.scheme not in _LOCAL:
        return checkpoint
    return f"file://{socket.gethostname()}{quote(os.path.abspath(parts.path))}"


def local_path(found: str) -> Path | None:
    """The path of a location or a checkpoint, if it is one of this machine."""
    parts = urlsplit(found)
    if parts.scheme not in _LOCAL or parts.netloc not in ("", socket.gethostname()):
        return None
    return Path(unquote(parts.path) if parts.scheme else found)


def query_of(checkpoint: Path) -> str | None:
    """The id of the query whose checkpoint this is."""
    try:
        found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def remove(checkpoint: Path) -> list[str]:
    """Delete a checkpoint, or a directory of them. The ids of their queries, which never come back, are returned."""
    # `ottla pipeline` keeps one for each query, SQL one for each cluster and query.
    folders = [checkpoint, *checkpoint.glob("*"), *checkpoint.glob("*/*")]
    queries = [query for each in folders if (query := query_of(each)) is not None]
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(checkpoint)
    return queries
