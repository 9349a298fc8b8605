"""POST /inserts-stream: reads rows as lines of JSON and acknowledges each with a line.

Rows that arrive together are written together. The server stops reading from a client that does not read its
acknowledgements.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from decimal import Decimal
from typing import Any

from ottla.http import HttpError, Request
from ottla.sql.errors import Position, SqlError
from ottla.sql.executing.insert_values import Record, record_of
from ottla.sql.server.ksql_errors import BAD_STATEMENT, SERVER_ERROR, bad_request
from ottla.sql.server.values import dumps
from ottla.sql.session import Conversation
from ottla.sql.sources import Source

_LONGEST_LINE = 8 * 1024 * 1024
_START = Position(1, 1)


async def lines_of(request: Request) -> AsyncIterator[list[bytes]]:
    """Yield lines that arrived together. The last line may lack a line break."""
    rest = b""
    async for chunk in request.chunks():
        *lines, rest = (rest + chunk).split(b"\n")
        if len(rest) > _LONGEST_LINE:
            raise HttpError(413, 413, "A row is too large.")
        found = [line for line in lines if line.strip()]
        if found:
            yield found
    if rest.strip():
        yield [rest]


def target_of(line: bytes, session: Conversation) -> Source:
    """Parse the target from the first line. Raises HttpError."""
    try:
        plain = json.loads(line)
        name = plain["target"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise bad_request('The first line of the request is not {"target": …}.') from None
    if not isinstance(name, str):
        raise bad_request("The field 'target' is not a text.")
    session.catalogue.refresh()
    wanted = name[1:-1] if name[:1] == "`" == name[-1:] else name.upper()
    source = session.catalogue.get(wanted)
    if source is None:
        raise HttpError(400, BAD_STATEMENT, f"Cannot insert values into an unknown stream/table: {wanted}")
    return source


class Inserts:
    def __init__(self, session: Conversation, pool: Executor) -> None:
        self._session = session
        self._pool = pool

    async def begin(self, request: Request) -> tuple[Source, AsyncIterator[list[bytes]], list[bytes]]:
        """Return the target and the remaining lines. Raises HttpError."""
        lines = lines_of(request)
        first = await anext(lines, None)
        if first is None:
            raise bad_request("The request has no first line with the target.")
        source = await self._threaded(target_of, first[0], self._session)
        return source, lines, first[1:]

    async def acknowledgements(
        self, source: Source, lines: AsyncIterator[list[bytes]], first: list[bytes]
    ) -> AsyncIterator[bytes]:
        number = 0
        failed = False
        batch: list[bytes] | None = first
        while batch is not None and not failed:
            if batch:
                answers, failed = await self._threaded(self._insert, source, batch, number)
                number += len(answers)
                yield "".join(f"{dumps(answer)}\n" for answer in answers).encode()
            batch = await anext(lines, None)

    async def _threaded(self, call: Callable[..., Any], *given: Any) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *given)

    def _insert(self, source: Source, lines: list[bytes], number: int) -> tuple[list[dict[str, Any]], bool]:
        """Insert rows. Return the responses and whether the last is an error, which ends the stream as in ksqlDB."""
        records: list[Record] = []
        failure: dict[str, Any] | None = None
        try:
            codecs = self._session.schemas.codecs(source, writing=True)
        except SqlError as error:
            return [{**_failed(SERVER_ERROR, error.message), "seq": number}], True
        for line in lines:
            try:
                records.append(record_of(source, _row(line, source), _START, codecs))
            except SqlError as error:
                failure = _failed(BAD_STATEMENT, error.message)
                break
        try:
            if records:
                self._session.brokers.produce(source.topic, records)
        except SqlError as error:
            return [{**_failed(SERVER_ERROR, error.message), "seq": number}], True
        answers: list[dict[str, Any]] = [
            {"status": "ok", "seq": number + place} for place in range(len(records))
        ]
        if failure is not None:
            answers.append({**failure, "seq": number + len(records)})
        return answers, failure is not None


def _failed(code: int, message: str) -> dict[str, Any]:
    return {"status": "error", "error_code": code, "message": message}


def _row(line: bytes, source: Source) -> dict[str, Any]:
    """Parse a row. Column names are upper case unless quoted, as in statements."""
    try:
        plain = json.loads(line, parse_float=Decimal)
    except (ValueError, RecursionError):
        raise SqlError("The row is not JSON.") from None
    if not isinstance(plain, dict):
        raise SqlError("The row is not a JSON object.")
    return {
        name[1:-1] if len(name) > 1 and name[0] == "`" == name[-1] else name.upper(): value
        for name, value in plain.items()
    }
