"""Errors that stop a copy until an operator decides: retrying does not help."""

from __future__ import annotations

from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError


class Gap(ClientError):
    """The source has deleted records before they were copied."""


class Diverged(ClientError):
    """The source has lost or replaced records after they were copied."""

    def __init__(self, message: str, partition: TopicPartition | None = None) -> None:
        super().__init__(message)
        self.partition = partition


class Recreated(ClientError):
    """The source topic was deleted and created again since the last copy."""


class CannotMirror(ClientError):
    """The target broker is not Ottla, or its version is too old."""


LASTING: tuple[type[ClientError], ...] = (Gap, Diverged, Recreated, CannotMirror)


def reason_of(failure: BaseException | None) -> ClientError:
    """Extract the original error message from the layers that Spark wraps around it."""
    text = str(failure)
    for kind in LASTING:
        _, found, rest = text.rpartition(f"{kind.__name__}: ")
        if found:
            return kind(rest.split("\n")[0].strip())
    for line in text.split("\n"):
        _, found, rest = line.partition("Error: ")
        if found and rest:
            return ClientError(rest.strip())
    return ClientError(text.split("\n")[0] or "The query has ended.")
