"""Errors with the codes of Confluent's REST proxy."""

from __future__ import annotations

from ottla.client.errors import ClientError, GroupNotFound, TopicNotFound, Unreachable
from ottla.http import HttpError
from ottla.protocol.errors import ErrorCode

TOPIC_NOT_FOUND = 40401
PARTITION_NOT_FOUND = 40402
CONSUMER_NOT_FOUND = 40403
FORMAT_MISMATCH = 40601
CONSUMER_EXISTS = 40902
ILLEGAL_STATE = 40903
UNPROCESSABLE = 422
KEY_SCHEMA_MISSING, VALUE_SCHEMA_MISSING = 42201, 42202
BAD_CONVERSION = 42203
BAD_CONSUMER = 42204
BAD_SCHEMA = 42205
INVALID_PAYLOAD = 42206
BAD_BATCH = 42208
KAFKA_ERROR, KAFKA_RETRIABLE = 50002, 50003
UNAUTHENTICATED, FORBIDDEN = 40101, 40301

_NOT_AUTHENTICATED = (ErrorCode.SASL_AUTHENTICATION_FAILED, ErrorCode.ILLEGAL_SASL_STATE)


def topic_not_found() -> HttpError:
    return HttpError(404, TOPIC_NOT_FOUND, "Topic not found.")


def partition_not_found() -> HttpError:
    return HttpError(404, PARTITION_NOT_FOUND, "Partition not found.")


def consumer_not_found() -> HttpError:
    return HttpError(404, CONSUMER_NOT_FOUND, "Consumer instance not found.")


def illegal_state(message: str) -> HttpError:
    """Refuse a call that does not fit the state of a consumer."""
    return HttpError(409, ILLEGAL_STATE, f"Illegal state: {message}")


def unprocessable(message: str, code: int = UNPROCESSABLE) -> HttpError:
    return HttpError(422, code, message)


def bad_request(message: str) -> HttpError:
    return HttpError(400, 400, message)


def of_client(error: ClientError) -> HttpError:
    """Convert a refusal of the cluster, or its unavailability."""
    if isinstance(error, TopicNotFound) or error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
        return HttpError(404, 40403, "This server does not host this topic-partition.")
    if isinstance(error, GroupNotFound) or error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return HttpError(404, 40403, error.message)
    return of_code(error.code, error.message, retriable=isinstance(error, Unreachable))


def of_code(code: ErrorCode | None, message: str, *, retriable: bool = False) -> HttpError:
    if code is not None and code in _NOT_AUTHENTICATED:
        return HttpError(401, UNAUTHENTICATED, message, {"WWW-Authenticate": 'Basic realm="kafka"'})
    if code is not None and "AUTHORIZATION_FAILED" in code.name:
        return HttpError(403, FORBIDDEN, message)
    if retriable or (code is not None and code.retriable):
        return HttpError(503 if retriable else 500, KAFKA_RETRIABLE, message)
    if code is None:
        return HttpError(500, KAFKA_ERROR, message)
    return HttpError(400, 40002, message)
