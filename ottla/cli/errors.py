"""Errors as sentences: jobs raise them, the command prints them and exits with 1.

They are the client's errors. Errors of librdkafka while producing and consuming become one of them here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.errors import (
    AdvertisedUnreachable,
    GroupNotEmpty,
    GroupNotFound,
    TopicNotFound,
    error_code,
    refusal,
)
from ottla.client.errors import ClientError as JobError
from ottla.client.errors import Unreachable as BrokerUnreachable

if TYPE_CHECKING:
    from confluent_kafka import KafkaError

__all__ = [
    "AdvertisedUnreachable",
    "BrokerUnreachable",
    "GroupNotEmpty",
    "GroupNotFound",
    "JobError",
    "TopicNotFound",
    "from_kafka",
]

# Sentences for the library's own errors, and for errors whose explanation the library drops.
_UNEXPLAINED = {
    "INVALID_RECORD": "The broker refused the message as invalid. A compacted topic (cleanup.policy=compact) takes "
    "only messages with a key.",
    "_MSG_TIMED_OUT": "The broker did not acknowledge the message in time.",
    "_UNKNOWN_TOPIC": "{subject} does not exist.",
    "_UNKNOWN_PARTITION": "{subject} does not have that partition.",
}


def from_kafka(error: KafkaError, subject: str = "It", group: str | None = None) -> JobError:
    """Return a sentence for an error of librdkafka: the broker's own explanation, if it gave one."""
    if error.name() == "GROUP_AUTHORIZATION_FAILED" and group is not None:
        return JobError(f"Not authorized to access group '{group}'.", error_code(error.code()))
    if error.name() in _UNEXPLAINED:
        sentence = _UNEXPLAINED[error.name()].format(subject=subject)
        return JobError(sentence, error_code(error.code()) if error.code() > 0 else None)
    text = error.str().strip()
    # The library puts a text of its own where the broker gave none.
    explanation = None if text.startswith(("Broker: ", "Local: ")) else text or None
    failure = refusal(
        max(error.code(), -1),
        text.removeprefix("Broker: ").removeprefix("Local: ") or error.name(),
        subject,
    )
    return JobError(failure.message, error_code(error.code()) if error.code() > 0 else None, explanation)
