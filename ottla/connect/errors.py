"""Errors in connectors, classified by the runtime's reaction."""

from __future__ import annotations

from ottla.client.errors import ClientError


class ConnectError(ClientError):
    """Fails the task. The message states the problem and the fix in one sentence. Kafka's ConnectException."""


class RetriableError(ConnectError):
    """A transient problem, retried until `errors.retry.timeout` expires. Kafka's RetriableException."""


class DataError(ConnectError):
    """An invalid record. `errors.tolerance` decides whether the task fails. Kafka's DataException."""
