"""SQL statements for an `ottla sql server` or ksqlDB; rows of a SELECT are streamed."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

from ottla.client.errors import ClientError
from ottla.console.access.hidden_values import without_logins
from ottla.console.access.roles import Level
from ottla.console.services.remote import Remote
from ottla.console.web.app import CLUSTER, Route
from ottla.console.web.streaming import EVENT_STREAM, FromThread, event
from ottla.console.web.visit import Page, Visit
from ottla.http import HttpError, Response

#: Statements that change nothing. The audit log holds changes.
_LOOKS = re.compile(r"\s*(LIST|SHOW|DESCRIBE|EXPLAIN|PRINT|SELECT)\b", re.IGNORECASE)
_READS = re.compile(r"\s*(SELECT|PRINT)\b", re.IGNORECASE)
_DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_MOST_TEXT = 20_000


class Sql:
    """Statements run with the rights of the SQL server, so a role needs the right `sql` for them."""

    def routes(self) -> Iterator[Route]:
        yield Route("GET", f"{CLUSTER}/sql", self.form, Level.OPERATOR, of="sql", json=False)
        yield Route("POST", f"{CLUSTER}/sql", self.run, Level.OPERATOR, of="sql")
        yield Route("GET", f"{CLUSTER}/sql/stream", self.stream, Level.OPERATOR, of="sql", json=False)

    async def form(self, visit: Visit) -> Page | Response:
        remote_of(visit)
        return _page("", None, None, None)

    async def run(self, visit: Visit) -> Page | Response:
        """Run a statement. A SELECT returns a page that streams its rows."""
        remote = remote_of(visit)
        text = visit.needed("statement")
        if len(text) > _MOST_TEXT:
            raise HttpError(400, 400, "The statement is too long.")
        if _READS.match(text):
            return _page(text, visit.app.signed_link(visit, "sql", text), None, None)
        is_change = any(not _LOOKS.match(each) for each in text.split(";") if each.strip())
        try:
            answer = await visit.site.calls.run(remote.request, "POST", "/ksql", {"ksql": _ended(text)})
        except ClientError as error:
            if is_change:
                await visit.log("SQL", without_logins(text)[:200], f"failed: {error.message}")
            return _page(text, None, None, error.message, 400)
        if is_change:
            await visit.log("SQL", without_logins(text)[:200])
        page = _page(text, None, [table_of(each) for each in answer or []], None)
        # ksqlDB answers an INSERT with nothing at all.
        return replace(page, more={**page.more, "done": "Done." if not answer else None})

    async def stream(self, visit: Visit) -> Page | Response:
        """Stream a query submitted by one of the console's own forms. Only reads are allowed: a GET changes nothing."""
        remote = remote_of(visit)
        text = visit.app.read_signed_link(visit, "sql", visit.query.get("statement"))
        if text is None or not _READS.match(text):
            raise HttpError(403, 403, "Run the statement from its page.")
        connection = remote.open()

        def read(emit: Callable[[str], None]) -> None:
            try:
                for line in remote.lines("/query-stream", {"sql": _ended(text)}, _DELIMITED, connection):
                    emit(line)
            finally:
                connection.close()

        def stop() -> None:
            if connection.sock is not None:
                connection.sock.close()

        rows: FromThread[str] = FromThread(read, stop)

        async def events() -> AsyncIterator[bytes]:
            count = 0
            try:
                async for line in rows:
                    found = json.loads(line)
                    if isinstance(found, dict) and "columnNames" in found:
                        heads = [f"{name} {kind}" for name, kind in
                                 zip(found["columnNames"], found.get("columnTypes", []), strict=False)]  # fmt: skip
                        yield event("head", visit.app.fragment(visit, "queries/head.html", {"heads": heads}))
                    elif isinstance(found, dict):
                        message = found.get("message") or found.get("finalMessage") or line
                        yield event("failed" if "message" in found else "end", str(message))
                        return
                    else:
                        count += 1
                        yield event("rows", visit.app.fragment(visit, "queries/row.html", {"row": found}))
                        yield event(
                            "progress", json.dumps({"done": 0, "total": 0, "text": f"{count:,} rows"})
                        )
                yield event("end", f"{count:,} rows.")
            except ClientError as error:
                yield event("failed", error.message)
            except (ValueError, RecursionError):
                yield event("failed", "SQL answers with a row that is not JSON, or that nests too deep.")

        return Response(200, events(), EVENT_STREAM, on_close=rows.stop)


def remote_of(visit: Visit) -> Remote:
    """Raises HttpError 404 without a SQL server, and 403 for users with masked messages."""
    if visit.app.hides_messages(visit.user):
        raise HttpError(
            403, 403, "Some messages are masked for you, and SQL would show them: an admin runs it."
        )
    url = visit.site.settings.sql
    if url is None:
        raise HttpError(404, 404, "This cluster has no SQL server: give the console its URL with --sql.")
    return Remote(url, "SQL", timeout=120.0)


def _page(
    text: str, stream: str | None, tables: list[dict[str, Any]] | None, problem: str | None, status: int = 200
) -> Page:
    return Page(
        "queries/sql.html",
        {},
        status,
        {"text": text, "stream": stream, "tables": tables, "problem": problem, "done": None},
    )


def _ended(text: str) -> str:
    return text if text.rstrip().endswith(";") else f"{text.rstrip()};"


def table_of(entity: dict[str, Any]) -> dict[str, Any]:
    """Convert ksqlDB's answer to a table: a list of objects, or the fields of one."""
    title = str(entity.get("@type", "")).replace("_", " ")
    for name, value in entity.items():
        if isinstance(value, list) and value and isinstance(value[0], dict) and name != "warnings":
            heads = list(dict.fromkeys(key for each in value for key in each if key != "@type"))
            return {
                "title": title,
                "heads": heads,
                "rows": [[_cell(each.get(key)) for key in heads] for each in value],
            }
    plain = {key: value for key, value in entity.items() if key not in ("@type", "warnings", "statementText")}
    return {"title": title, "heads": ["", ""], "rows": [[key, _cell(value)] for key, value in plain.items()]}


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
