"""Errors in ksqlDB's format: a type, a five-digit code that begins with the HTTP status, and a message."""

from __future__ import annotations

from typing import Any

from ottla.http import HttpError, Request, Response, json_response

BAD_REQUEST = 40000
BAD_STATEMENT = 40001
QUERY_ENDPOINT = 40002
NOT_FOUND = 40400
SERVER_ERROR = 50000
COMMAND_QUEUE_TIMEOUT = 50301
NOT_READY = 50302
SHUTTING_DOWN = 50303

_STARTS = {400: BAD_REQUEST, 401: 40100, 403: 40300, 404: NOT_FOUND, 500: SERVER_ERROR}


class StatementError(HttpError):
    """Includes the failed statement and the results of the statements before it."""

    def __init__(
        self, message: str, statement: str, entities: list[Any] | None = None, code: int = BAD_STATEMENT
    ) -> None:
        super().__init__(code // 100, code, message)
        self.statement = statement
        self.entities = entities or []


def bad_request(message: str) -> HttpError:
    return HttpError(400, BAD_REQUEST, message)


def body_of(error: HttpError) -> dict[str, Any]:
    if isinstance(error, StatementError):
        return {
            "@type": "statement_error",
            "error_code": error.error_code,
            "message": error.message,
            "statementText": error.statement,
            "entities": error.entities,
        }
    code = error.error_code
    if code < 10_000:  # from the HTTP server itself
        code = _STARTS.get(error.status, error.status * 100)
    elif error.status in (401, 403):
        code = _STARTS[error.status]
    return {"@type": "generic_error", "error_code": code, "message": error.message}


def render(error: HttpError, request: Request | None) -> Response:
    return json_response(body_of(error), error.status, headers=error.headers)
