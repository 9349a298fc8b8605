"""What stops a copy until somebody decides: it does not go away by itself."""

from __future__ import annotations

from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError


class Gap(ClientError):
    """Records that were to be copied are gone from the source."""


class Diverged(ClientError):
    """Records that were copied are gone from the source, or others are in their place."""

    def __init__(self, message: str, partition: TopicPartition | None = None) -> None:
        super().__init__(message)
        self.partition = partition


class Recreated(ClientError):
    """A topic of the source is not the one that was copied so far."""


class CannotMirror(ClientError):
    """The target is no Ottla, or one that is too old."""


LASTING: tuple[type[ClientError], ...] = (Gap, Diverged, Recreated, CannotMirror)


def reason_of(failure: BaseException | None) -> ClientError:
    """What Spark wraps in layers of Java and Python: the sentence of the error that was raised first."""
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
