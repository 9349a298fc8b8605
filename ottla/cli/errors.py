"""What can go wrong, as sentences: jobs raise these, the command prints them and leaves with a code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from confluent_kafka import KafkaError


class JobError(Exception):
    """A job could not be done.

    `code` is Kafka's name of the error, if the broker or the client gave one; `said` is the broker's explanation
    to the letter, which Kafka's tools print as it is.
    """

    exit_code = 1

    def __init__(self, message: str, code: str | None = None, said: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.said = said


class BrokerUnreachable(JobError):
    pass


class TopicNotFound(JobError):
    def __init__(self, topic: str, hint: str = "") -> None:
        super().__init__(f"Topic '{topic}' does not exist.{hint}", "UNKNOWN_TOPIC_OR_PART")
        self.topic = topic


class GroupNotFound(JobError):
    def __init__(self, group: str) -> None:
        super().__init__(f"Consumer group '{group}' does not exist.", "GROUP_ID_NOT_FOUND")
        self.group = group


class GroupNotEmpty(JobError):
    def __init__(self, group: str, state: str) -> None:
        super().__init__(
            f"Consumer group '{group}' has active members (state {state}); stop its consumers first.",
            "NON_EMPTY_GROUP",
        )
        self.group = group
        self.state = state


# {subject} is the topic, group, … that the request was about.
_SENTENCES = {
    "UNKNOWN_TOPIC_OR_PART": "{subject} does not exist.",
    "TOPIC_ALREADY_EXISTS": "{subject} already exists.",
    "GROUP_ID_NOT_FOUND": "{subject} does not exist.",
    "NON_EMPTY_GROUP": "{subject} has active members; stop its consumers first.",
    "TOPIC_AUTHORIZATION_FAILED": "Not authorized to access {subject}.",
    "GROUP_AUTHORIZATION_FAILED": "Not authorized to access {subject}.",
    "CLUSTER_AUTHORIZATION_FAILED": "Not authorized to do this on the cluster.",
    "TOPIC_DELETION_DISABLED": "The broker does not allow topics to be deleted (delete.topic.enable=false).",
    "MSG_SIZE_TOO_LARGE": "The message is larger than the broker accepts (max.message.bytes of the topic).",
    "_MSG_TIMED_OUT": "The broker did not acknowledge the message in time.",
    "_UNKNOWN_TOPIC": "{subject} does not exist.",
    "_UNKNOWN_PARTITION": "{subject} does not have that partition.",
}


def sentence(error: KafkaError, subject: str = "It") -> str:
    """One sentence for a Kafka error; the broker's own explanation where it gave one."""
    known = _SENTENCES.get(error.name())
    if known is not None:
        return known.format(subject=subject)
    text = error.str().strip().removeprefix("Broker: ").removeprefix("Local: ")
    if not text:
        text = error.name()
    text = text[0].upper() + text[1:]
    return text if text.endswith((".", "!", "?")) else f"{text}."


def from_kafka(error: KafkaError, subject: str = "It") -> JobError:
    said = error.str().strip()
    # The library puts a text of its own where the broker gave none.
    explained = said and not said.startswith(("Broker: ", "Local: "))
    return JobError(sentence(error, subject), error.name(), said if explained else None)


# The client library's abbreviations, which the sentences and the jobs go by.
_LIBRARY_NAMES = {
    "UNKNOWN_TOPIC_OR_PARTITION": "UNKNOWN_TOPIC_OR_PART",
    "MESSAGE_TOO_LARGE": "MSG_SIZE_TOO_LARGE",
}


def from_code(code: int, message: str | None, subject: str = "It") -> JobError:
    """An error code in an answer that was read without the client library."""
    from ottla.protocol.errors import ErrorCode

    name = ErrorCode(code).name if code in ErrorCode._value2member_map_ else f"error {code}"
    name = _LIBRARY_NAMES.get(name, name)
    known = _SENTENCES.get(name)
    if known is not None:
        return JobError(known.format(subject=subject), name, message)
    return JobError(f"{(message or f'{subject}: {name}').rstrip('.')}.", name, message)


# What Kafka's own client says where a broker sent a code and no words.
_WORDS = {
    "GROUP_ID_NOT_FOUND": "The group id does not exist.",
    "NON_EMPTY_GROUP": "The group is not empty.",
    "UNKNOWN_TOPIC_OR_PART": "This server does not host this topic-partition.",
    "NOT_LEADER_OR_FOLLOWER": "For requests intended only for the leader, this error indicates that the broker is not "
    "the current leader. For requests intended for any replica, this error indicates that the broker is not a replica "
    "of the topic partition.",
    "INVALID_PRODUCER_EPOCH": "Producer attempted to produce with an old epoch.",
    "TRANSACTION_COORDINATOR_FENCED": "Indicates that the transaction coordinator sending a WriteTxnMarker is no "
    "longer the current coordinator for a given producer.",
    "INVALID_UPDATE_VERSION": "The given update version was invalid.",
    "FEATURE_UPDATE_FAILED": "Unable to update finalized features due to an unexpected server error.",
    "UNSUPPORTED_VERSION": "The version of API is not supported.",
}


def in_kafkas_words(code: int, message: str | None) -> JobError:
    """A refusal as Kafka's tools print it: the broker's own words, else those of Kafka's client."""
    error = from_code(code, message)
    return JobError(message or _WORDS.get(error.code or "", error.message), error.code)
