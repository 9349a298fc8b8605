"""Checkpoints of streaming queries on disk: their owners, and whether they still exist.

Spark writes the id of a query to its checkpoint at the first start, and creates a new id without a checkpoint. So a
query whose checkpoint is gone never comes back.
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
    """Return the location of a checkpoint for any machine: a local path gets the name of this host."""
    parts = urlsplit(checkpoint)
    if parts.scheme not in _LOCAL:
        return checkpoint
    return f"file://{socket.gethostname()}{quote(os.path.abspath(parts.path))}"


def local_path(found: str) -> Path | None:
    parts = urlsplit(found)
    if parts.scheme not in _LOCAL or parts.netloc not in ("", socket.gethostname()):
        return None
    return Path(unquote(parts.path) if parts.scheme else found)


def query_of(checkpoint: Path) -> str | None:
    try:
        found: str = json.loads((checkpoint / "metadata").read_text())["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found


def remove(checkpoint: Path) -> list[str]:
    """Delete a checkpoint, or a directory of checkpoints. Return the ids of their queries."""
    # `ottla pipeline` has a checkpoint per query, SQL one per cluster and query.
    folders = [checkpoint, *checkpoint.glob("*"), *checkpoint.glob("*/*")]
    queries = [query for each in folders if (query := query_of(each)) is not None]
    with contextlib.suppress(FileNotFoundError):
        shutil.rmtree(checkpoint)
    return queries
