"""Client for a SQL server with ksqlDB's REST API.

    from ottla.sql.client import SqlClient

    client = SqlClient("http://localhost:8088")
    for result in client.results("SET 'auto.offset.reset' = 'earliest'; SELECT * FROM tweets EMIT CHANGES LIMIT 3;"):
        for row in result.rows:
            print(row)

The client keeps properties and variables and sends them with each request. The server keeps no client state.
"""

from __future__ import annotations

import base64
import contextlib
import http.client
import json
import ssl
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ottla.sql.errors import Position, SqlError
from ottla.sql.executing.results import Result
from ottla.sql.parsing import statements as s
from ottla.sql.parsing.parser import split, statements
from ottla.sql.properties import SessionProperties

_JSON = "application/vnd.ksql.v1+json"
_DELIMITED = "application/vnd.ksqlapi.delimited.v1"
_QUERIES = ("SELECT", "PRINT")
_OWN = ("SET", "UNSET", "DEFINE", "UNDEFINE", "RUN")
_LISTS = ("streams", "tables", "topics", "queries", "properties", "functions", "variables")
_DESCRIBED = 50


class SqlClient:
    """For use by one thread. `user` is NAME:PASSWORD; the URL may contain it instead."""

    uses_spark = False

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        connect_timeout: float = 10.0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        try:
            self._host, self._port = parts.hostname, parts.port
        except ValueError:
            self._host = None
        if parts.scheme not in ("http", "https") or not self._host:
            raise SqlError(f"{url} is not the URL of a server, such as http://localhost:8088.")
        self._tls = (tls or ssl.create_default_context()) if parts.scheme == "https" else None
        if self._tls is not None:
            self._tls.set_alpn_protocols(
                ["http/1.1"]
            )  # a context shared with another client may offer HTTP/2
        self._port = self._port or (443 if parts.scheme == "https" and ":" not in parts.netloc else 8088)
        self.url = f"{parts.scheme}://{self._host}:{self._port}"
        if user is None and parts.username:
            user = f"{parts.username}:{parts.password or ''}"
        self._login = None if user is None else "Basic " + base64.b64encode(user.encode()).decode()
        self._timeout = connect_timeout
        self.properties = SessionProperties()
        self.variables: dict[str, str] = {}
        self._words: list[tuple[str, str]] = []

    # -- statements --

    def execute(self, script: str) -> list[Result]:
        """Execute all statements. Push queries need a LIMIT here; `results` streams their rows."""
        done = []
        for result in self.results(script):
            result.rows = list(result.rows)
            done.append(result)
        return done

    def results(self, script: str, *, resume: bool = False) -> Generator[Result, None, None]:
        """Yield the result of each statement. Consume all rows of a result before requesting the next."""
        for position, text in split(script):
            kind = text.split(None, 1)[0].upper()
            if kind in _OWN:
                yield from self._own(text, position)
            elif kind in _QUERIES:
                yield from self._query(text, position)
            else:
                yield from self._ksql(text, position, resume)

    def _own(self, text: str, position: Position) -> Iterator[Result]:
        [statement] = list(statements(_placed(text, position), self.variables))
        match statement:
            case s.SetProperty(name=name, value=value):
                self.properties.set(name, value, statement.position)
                yield Result(statement, f"Set {name} to {value}.")
            case s.UnsetProperty(name=name):
                self.properties.unset(name, statement.position)
                yield Result(statement, f"{name} is at its default.")
            case s.Define(name=name, value=value):
                self.variables[name] = value
                yield Result(statement, f"Defined {name}.")
            case s.Undefine(name=name):
                if self.variables.pop(name, None) is None:
                    raise SqlError(f"There is no variable {name}.", statement.position)
                yield Result(statement, f"{name} is no longer defined.")
            case s.RunScript(path=path):
                yield from self._run_script(path, statement)

    def _run_script(self, path: str, statement: s.Statement) -> Iterator[Result]:
        try:
            script = Path(path).expanduser().read_text()
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise SqlError(f"The script {path} cannot be read: {reason}.", statement.position) from None
        try:
            yield from self.results(script, resume=True)
        except SqlError as error:
            raise SqlError(f"In {path}, {error}") from error

    def _set(self) -> dict[str, str]:
        return {name: value for name, default, value in self.properties.rows() if value != default}

    def _ksql(self, text: str, position: Position, resume: bool) -> Iterator[Result]:
        body = {
            "ksql": _placed(text, position) + ";",
            "streamsProperties": self._set(),
            "sessionVariables": self.variables,
            "requestProperties": {"ottla.results": True, "ottla.resume": resume},
        }
        entities = self._json("POST", "/ksql", body)
        statement = s.Statement(text=text, position=position)
        for entity in entities:
            yield _result(statement, entity)
        if not entities:  # ksqlDB returns no entity for INSERT INTO … VALUES
            yield Result(statement)

    def _query(self, text: str, position: Position) -> Iterator[Result]:
        body = {
            "sql": _placed(text, position) + ";",
            "properties": self._set(),
            "sessionVariables": self.variables,
        }
        statement = s.Statement(text=text, position=position)
        with self._opened("POST", "/query-stream", body, accept=_DELIMITED) as response:
            header = self._line(response)
            columns, types = tuple(header["columnNames"]), tuple(header["columnTypes"])
            words = text.upper().split()
            is_push = words[0] == "PRINT" or "EMIT" in words
            yield Result(statement, None, columns, self._rows(response, types), is_push, kinds=lambda: types)

    def _rows(self, response: http.client.HTTPResponse, types: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
        while (row := self._line(response)) is not None:
            if isinstance(row, dict):
                raise SqlError(str(row.get("message", row)))
            yield tuple(_value(value, kind) for value, kind in zip(row, types, strict=True))

    def _line(self, response: http.client.HTTPResponse) -> Any:
        """Read one line of JSON, or None at the end."""
        try:
            line = response.readline()
        except (OSError, http.client.HTTPException):
            raise SqlError(f"The SQL server at {self.url} has ended the connection.") from None
        if not line:
            return None
        return json.loads(line) if line.strip() else self._line(response)

    # -- metadata --

    def info(self) -> dict[str, Any]:
        found: dict[str, Any] = self._json("GET", "/info", None)["KsqlServerInfo"]
        return found

    def close_query(self, query_id: str) -> None:
        with self._opened("POST", "/close-query", {"queryId": query_id}):
            pass

    def refresh(self) -> None:
        """Fetch the names that a shell completes."""
        found: list[tuple[str, str]] = []
        text = "LIST STREAMS; LIST TABLES;"
        for entity in self._json("POST", "/ksql", {"ksql": text}):
            for kind in ("streams", "tables"):
                found += [(each["name"], kind[:-1]) for each in entity.get(kind, ())]
        for name, _ in found[:_DESCRIBED]:
            [entity] = self._json("POST", "/ksql", {"ksql": f"DESCRIBE `{name}`;"})
            fields = entity["sourceDescription"]["fields"]
            found += [(each["name"], f"column of {name}") for each in fields]
        self._words = found

    def words(self) -> list[tuple[str, str]]:
        return self._words

    def close(self) -> None:
        """Do nothing: every request closes its connection."""

    # -- HTTP --

    @contextlib.contextmanager
    def _opened(
        self, method: str, path: str, body: Mapping[str, Any] | None, accept: str = _JSON
    ) -> Iterator[http.client.HTTPResponse]:
        """Open a connection for one request; closing it ends a query. Raises SqlError."""
        connection = self._connection()
        headers = {"Accept": accept, "Content-Type": _JSON}
        if self._login is not None:
            headers["Authorization"] = self._login
        data = None if body is None else json.dumps(body).encode()
        try:
            try:
                connection.connect()
                # Statements may take arbitrarily long.
                connection.sock.settimeout(None if body is not None else self._timeout)
                connection.request(method, path, data, headers)
                response = connection.getresponse()
            except ssl.SSLError as error:
                reason = error.reason or str(error)
                raise SqlError(f"No secure connection to {self.url}: {reason}.") from None
            except (OSError, http.client.HTTPException):
                raise SqlError(f"Cannot reach a SQL server at {self.url}: is it running?") from None
            if response.status >= 400:
                raise self._error(response)
            yield response
        finally:
            connection.close()

    def _connection(self) -> http.client.HTTPConnection:
        assert self._host is not None
        if self._tls is not None:
            return http.client.HTTPSConnection(
                self._host, self._port, timeout=self._timeout, context=self._tls
            )
        return http.client.HTTPConnection(self._host, self._port, timeout=self._timeout)

    def _error(self, response: http.client.HTTPResponse) -> SqlError:
        if response.status == 401:
            return SqlError(f"The SQL server at {self.url} asks for a login: give --user NAME:PASSWORD.")
        try:
            message = json.loads(response.read())["message"]
        except (ValueError, KeyError, TypeError):
            message = f"The SQL server at {self.url} answered {response.status} {response.reason}."
        return SqlError(str(message))

    def _json(self, method: str, path: str, body: Mapping[str, Any] | None) -> Any:
        with self._opened(method, path, body) as response:
            try:
                return json.loads(response.read())
            except ValueError:
                raise SqlError(f"The server at {self.url} is not a SQL server.") from None


def _placed(text: str, position: Position) -> str:
    """Pad the statement to its position in the script, so that server errors point to the right place."""
    return "\n" * (position.line - 1) + " " * (position.column - 1) + text


def _value(value: Any, kind: str) -> Any:
    if kind == "BYTES" and isinstance(value, str):
        return base64.b64decode(value)
    if kind == "DOUBLE" and isinstance(value, str):
        return float(value)
    return value


def _result(statement: s.Statement, entity: dict[str, Any]) -> Result:
    """Build a result from the server's `ottla` field, or from a plain ksqlDB response."""
    shown = entity.get("ottla")
    if shown is not None:
        return Result(
            statement, shown["message"], tuple(shown["columns"]), [tuple(row) for row in shown["rows"]]
        )
    if "commandStatus" in entity:
        return Result(statement, entity["commandStatus"]["message"])
    for name in _LISTS:
        listed = entity.get(name)
        if isinstance(listed, list) and all(isinstance(each, dict) for each in listed):
            columns = tuple(dict.fromkeys(key for each in listed for key in each))
            rows = [tuple(each.get(key) for key in columns) for each in listed]
            return Result(statement, None, tuple(key.upper() for key in columns), rows)
    return Result(statement, json.dumps(entity, indent=2, ensure_ascii=False))
