"""Statements of an assistant: one that only reads, with bounds on rows and time."""

from __future__ import annotations

import json
import re
import time
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.access.roles import Level, User
from ottla.console.cluster.site import Site
from ottla.console.services.remote import Remote
from ottla.console.web.app import App
from ottla.http import HttpError

_LOOKS = re.compile(r"\s*(LIST|SHOW|DESCRIBE|EXPLAIN)\b", re.IGNORECASE)
_SELECT = re.compile(r"\s*SELECT\b", re.IGNORECASE)
_DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_MOST_ROWS = 100
_SECONDS = 10.0


async def run_statement(app: App, user: User, site: Site, statement: str) -> Any:
    """Raises HttpError and ClientError."""
    if not user.may(Level.OPERATOR, "sql"):
        raise HttpError(403, 403, "This needs the right sql.")
    if app.hides_messages(user):
        raise HttpError(403, 403, "Some messages are masked for you, and SQL would show them.")
    if site.settings.sql is None:
        raise HttpError(404, 404, "This cluster has no SQL server.")
    text = statement.strip().removesuffix(";")
    if ";" in text or "--" in text or "/*" in text:
        raise HttpError(400, 400, "Run one statement, without comments and without ';' inside of it.")
    remote = Remote(site.settings.sql, "SQL", timeout=_SECONDS)
    if _LOOKS.match(text):
        return await site.calls.run(remote.request, "POST", "/ksql", {"ksql": f"{text};"})
    if _SELECT.match(text):
        return await site.calls.run(_rows, remote, f"{text};")
    raise HttpError(403, 403, "An assistant may run SELECT, LIST, SHOW, DESCRIBE and EXPLAIN only.")


def _rows(remote: Remote, text: str) -> dict[str, Any]:
    """Read the first rows. A query that goes on for ever is left when it has none for a while."""
    connection = remote.open()
    connection.timeout = _SECONDS
    rows: list[Any] = []
    head: Any = None
    until = time.monotonic() + _SECONDS
    try:
        for line in remote.lines("/query-stream", {"sql": text}, _DELIMITED, connection):
            found = json.loads(line)
            if isinstance(found, dict) and "columnNames" in found:
                head = found["columnNames"]
            elif isinstance(found, dict):
                if "message" in found:
                    raise ClientError(f"SQL: {found['message']}")
            else:
                rows.append(found)
            if len(rows) >= _MOST_ROWS or time.monotonic() > until:
                break
    finally:
        connection.close()
    return {"columns": head, "rows": rows}
