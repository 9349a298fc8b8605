"""What goes wrong in a connector, by what is to be done about it."""

from __future__ import annotations

from ottla.client.errors import ClientError


class ConnectError(ClientError):
    """Fails the task, with one sentence that says what is wrong and what to do. Kafka's ConnectException."""


class RetriableError(ConnectError):
    """May go away by itself: tried again until `errors.retry.timeout` is over. Kafka's RetriableException."""


class DataError(ConnectError):
    """A record that does not fit. `errors.tolerance` decides whether the task fails. Kafka's DataException."""
