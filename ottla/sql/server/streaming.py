"""SELECT and PRINT over /query, /query-stream and /ws/query, which write the same rows in different formats."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor
from typing import Any, NamedTuple

from ottla.http import HttpError, Request, Response, WebSocket
from ottla.sql.errors import TOO_DEEP, SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing import statements as s
from ottla.sql.planning.plan import plan_select
from ottla.sql.pull.plain_rows import named_columns
from ottla.sql.server.commands import Commands
from ottla.sql.server.ksql_errors import StatementError, bad_request, body_of
from ottla.sql.server.ksql_requests import KsqlRequest, parse_request, read_request
from ottla.sql.server.push_queries import PushQueries, PushQuery
from ottla.sql.server.values import dumps, plain, row_text
from ottla.sql.session import Conversation
from ottla.sql.sources import Source

_LINE_END = ",\n"
DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_ROWS_PER_CHUNK = 500


class Planned(NamedTuple):
    result: Result
    types: tuple[str, ...]
    source: Source | None  # the only source of a pull query
    session: Conversation


class Opened:
    """A planned SELECT or PRINT. The rows of a push query come from its thread."""

    def __init__(self, planned: Planned, push: PushQuery | None, query_id: str) -> None:
        self.result = planned.result
        self.types = planned.types
        self.source = planned.source
        self.push = push
        self.query_id = query_id

    @property
    def is_print(self) -> bool:
        return isinstance(self.result.statement, s.Print)

    @property
    def limit(self) -> int | None:
        statement = self.result.statement
        if isinstance(statement, s.Query):
            return statement.select.limit
        return statement.limit if isinstance(statement, s.Print) else None

    async def batches(self) -> AsyncIterator[list[tuple[Any, ...]]]:
        if self.push is not None:
            async for rows in self.push.batches():
                yield rows
            return
        rows = list(self.result.rows)
        for start in range(0, len(rows), _ROWS_PER_CHUNK):
            yield rows[start : start + _ROWS_PER_CHUNK]

    def close(self) -> None:
        if self.push is not None:
            self.push.interrupt()


class Streaming:
    def __init__(self, commands: Commands, pushes: PushQueries, pool: Executor) -> None:
        self._commands = commands
        self._pushes = pushes
        self._pool = pool

    async def open(self, request: KsqlRequest) -> Opened:
        """Plan the statement of a request. Raises HttpError."""
        loop = asyncio.get_running_loop()
        planned = await loop.run_in_executor(self._pool, self._plan, request)
        if planned.result.is_push:
            push = self._pushes.begin(planned.result, planned.session)
            return Opened(planned, push, push.query_id)
        return Opened(planned, None, self._pushes.new_id(planned.result))

    def _plan(self, request: KsqlRequest) -> Planned:
        conversation, _ = self._commands.conversation(request)
        text = request.text
        try:
            found = conversation.parse(request.text)
            statement = next(found, None)
            if statement is None or next(found, None) is not None:
                raise bad_request("Expected exactly one KSQL statement; found 0 or more than one instead")
            text = f"{statement.text};"
            if not isinstance(statement, s.Query | s.Print):
                kind = statement.text.split(None, 1)[0].upper()
                raise StatementError(f"Statement type `{kind}` not supported for this resource", text)
            [result] = conversation.run(statement)
            types = named_types(statement, conversation) or result.types
        except SqlError as error:
            raise StatementError(str(error), text) from None
        except RecursionError:
            raise StatementError(TOO_DEEP, text) from None
        source = None
        if isinstance(statement, s.Query) and statement.select.emit is None and not statement.select.joins:
            source = conversation.catalogue.get(statement.select.source.name)
        return Planned(result, types or tuple("STRING" for _ in result.columns), source, conversation)

    # -- POST /query --

    async def query(self, request: Request) -> Response:
        opened = await self.open(await read_request(request, "ksql", "sql"))
        if opened.is_print:
            return Response(200, self._printed(opened), "text/plain; charset=utf-8", on_close=opened.close)
        return Response(200, self._query_rows(opened), request.produces, on_close=opened.close)

    async def _query_rows(self, opened: Opened) -> AsyncIterator[bytes]:
        """Write a JSON array with one item per line. Each line is complete, for clients that read lines."""
        keys = _key_names(opened.source)
        columns = ", ".join(
            f"`{name}` {kind}{' KEY' if name in keys else ''}"
            for name, kind in zip(opened.result.columns, opened.types, strict=True)
        )
        header = dumps({"header": {"queryId": opened.query_id, "schema": columns}})
        if _final_message(opened, 0) is None:
            # Only the rows tell whether a comma follows, and all of them are known.
            items = [header]
            async for rows in opened.batches():
                items += map(_row_item, rows)
            yield f"[{_LINE_END.join(items)}]\n".encode()
            return
        yield f"[{header}{_LINE_END}".encode()
        count = 0
        try:
            async for rows in opened.batches():
                count += len(rows)
                yield "".join(f"{_row_item(row)}{_LINE_END}" for row in rows).encode()
        except HttpError as error:
            message = {"@type": "generic_error", "error_code": 50000, "message": error.message}
            yield f"{dumps({'errorMessage': message})}]\n".encode()
            return
        yield f"{dumps({'finalMessage': _final_message(opened, count)})}]\n".encode()

    async def _printed(self, opened: Opened) -> AsyncIterator[bytes]:
        try:
            async for rows in opened.batches():
                yield "".join(
                    f"rowtime: {moment}, key: {_shown(key)}, value: {_shown(value)}, partition: {partition}\n"
                    for moment, partition, _, key, value in rows
                ).encode()
        except HttpError as error:
            yield f"{error.message}\n".encode()

    # -- POST /query-stream --

    async def query_stream(self, request: Request) -> Response:
        opened = await self.open(await read_request(request, "sql", "ksql"))
        delimited = request.produces == DELIMITED
        rows = self._delimited(opened) if delimited else self._json_array(opened)
        return Response(200, rows, request.produces, on_close=opened.close)

    def _metadata(self, opened: Opened) -> str:
        return dumps(
            {
                "queryId": opened.query_id,
                "columnNames": list(opened.result.columns),
                "columnTypes": list(opened.types),
            }
        )

    async def _delimited(self, opened: Opened) -> AsyncIterator[bytes]:
        yield f"{self._metadata(opened)}\n".encode()
        try:
            async for rows in opened.batches():
                yield "".join(f"{row_text(row)}\n" for row in rows).encode()
        except HttpError as error:
            yield f"{dumps(body_of(error))}\n".encode()

    async def _json_array(self, opened: Opened) -> AsyncIterator[bytes]:
        yield f"[{self._metadata(opened)}".encode()
        try:
            async for rows in opened.batches():
                yield "".join(f",\n{row_text(row)}" for row in rows).encode()
        except HttpError as error:
            yield f",\n{dumps(body_of(error))}".encode()
        yield b"]\n"

    # -- /ws/query --

    async def websocket(self, socket: WebSocket) -> None:
        """Answer the statement in the parameter `request`: one message for the columns, and one for each row."""
        try:
            request = parse_request(socket.request.query.get("request", ""), "ksql", "sql")
            opened = await self.open(request)
        except HttpError as error:
            await socket.send(json.dumps(body_of(error)))
            await socket.close(1011, "Bad statement")
            return
        watching = asyncio.create_task(_until_closed(socket, opened.close))
        try:
            if not opened.is_print:
                await socket.send(dumps(_fields(opened)))
            async for rows in opened.batches():
                for row in rows:
                    if opened.is_print:
                        await socket.send(
                            dumps(dict(zip(opened.result.columns, map(plain, row), strict=True)))
                        )
                    else:
                        await socket.send(f'{{"row":{{"columns":{row_text(row)}}}}}')
            await socket.send(dumps({"finalMessage": _final_message(opened, 0) or "done"}))
        except HttpError as error:
            await socket.send(dumps(body_of(error)))
        finally:
            opened.close()
            watching.cancel()
        await socket.close(1000, "done")


async def _until_closed(socket: WebSocket, then: Callable[[], None]) -> None:
    while await socket.receive() is not None:
        pass
    then()


def _final_message(opened: Opened, count: int) -> str | None:
    """Return the last message, or None for a pull query over a table, which has none in ksqlDB."""
    if opened.push is None:
        if opened.source is None or opened.source.kind == "TABLE":
            return None
        return "Limit Reached" if count == opened.limit else "Query Completed"
    if opened.push.was_interrupted:
        return "Query terminated"
    return "Limit Reached" if opened.limit is not None else "Query Completed"


def _row_item(row: tuple[Any, ...]) -> str:
    return f'{{"row":{{"columns":{row_text(row)}}}}}'


def _key_names(source: Source | None) -> tuple[str, ...]:
    """Return the columns that a pull query over a table marks with KEY."""
    if source is None or source.kind == "STREAM":
        return ()
    return (*(column.name for column in source.keys), *source.window_columns)


def _fields(opened: Opened) -> list[dict[str, Any]]:
    return [
        {"name": name, "schema": {"type": kind, "fields": None, "memberSchema": None}}
        for name, kind in zip(opened.result.columns, opened.types, strict=True)
    ]


def _shown(value: str | None) -> str:
    return "<null>" if value is None else value


_PSEUDO = {"ROWTIME": "BIGINT", "ROWPARTITION": "INTEGER", "ROWOFFSET": "BIGINT"}
_PSEUDO |= {"WINDOWSTART": "BIGINT", "WINDOWEND": "BIGINT"}


def named_types(statement: s.Statement, session: Conversation) -> tuple[str, ...]:
    """Return the types without Spark if a pull query only names columns of one source, otherwise an empty tuple."""
    if not isinstance(statement, s.Query) or statement.select.emit is not None or statement.select.joins:
        return ()
    plan = plan_select(
        statement.select, session.catalogue.find, batch=True, reader=True, functions=session.functions
    )
    names = named_columns(plan)
    if names is None:
        return ()
    [source] = plan.sources.values()
    types = _PSEUDO | {column.name: str(column.type) for column in source.columns}
    return tuple(types[name] for name in names)
