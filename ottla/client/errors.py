"""Errors between a client and a cluster, one sentence each."""

from __future__ import annotations

from typing import Protocol

from ottla.protocol.errors import ErrorCode


class ClientError(Exception):
    """`code` is Kafka's error code, from the broker or equivalent.

    `broker_message` is the broker's own explanation, which Kafka's tools print unchanged.
    """

    def __init__(
        self, message: str, code: ErrorCode | None = None, broker_message: str | None = None
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.broker_message = broker_message

    @property
    def is_retriable(self) -> bool:
        return self.code is not None and self.code.retriable


class Unreachable(ClientError):
    """The connection failed or was lost."""

    @property
    def is_retriable(self) -> bool:
        return True


class BadAddress(Unreachable):
    """The host name is unknown, or TLS negotiation failed. The message tells which."""


class AdvertisedUnreachable(Unreachable):
    """A broker is unreachable at its advertised address, although another address has answered."""

    def __init__(
        self, address: tuple[str, int], broker: int | None, answered: str, reason: Unreachable
    ) -> None:
        who = "a broker" if broker is None else f"broker {broker}"
        through = f"{answered} answered, but " if answered else ""
        why = reason.message.rstrip(".").partition(f"{address[1]}: ")[2] or reason.message.rstrip(".")
        sentence = (
            f"{through}{who} advertises {address[0]}:{address[1]}, which cannot be reached from here: {why}. "
            "If it is running, its advertised.listeners is wrong."
        )
        super().__init__(sentence[0].upper() + sentence[1:])


class Unsupported(ClientError):
    """Features that this client lacks, such as Kerberos or Java's key stores."""


class TopicNotFound(ClientError):
    def __init__(self, topic: str, hint: str = "") -> None:
        super().__init__(f"Topic '{topic}' does not exist.{hint}", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        self.topic = topic


class GroupNotFound(ClientError):
    def __init__(self, group: str) -> None:
        super().__init__(f"Consumer group '{group}' does not exist.", ErrorCode.GROUP_ID_NOT_FOUND)
        self.group = group


class GroupNotEmpty(ClientError):
    def __init__(self, group: str, state: str) -> None:
        super().__init__(
            f"Consumer group '{group}' has active members (state {state}); stop its consumers first.",
            ErrorCode.NON_EMPTY_GROUP,
        )
        self.group = group
        self.state = state


def error_code(number: int) -> ErrorCode:
    """Return the error code of a number. A newer broker may send unknown ones."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR


# {subject} is the request's topic, group, …; {object} is the same inside a sentence.
_SENTENCES = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "{subject} does not exist.",
    ErrorCode.TOPIC_ALREADY_EXISTS: "{subject} already exists.",
    ErrorCode.GROUP_ID_NOT_FOUND: "{subject} does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "{subject} has active members; stop its consumers first.",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "Not authorized to access {object}.",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "Not authorized to access {object}.",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "Not authorized to access {object}.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Not authorized to do this on the cluster.",
    ErrorCode.TOPIC_DELETION_DISABLED: "The broker does not allow topics to be deleted (delete.topic.enable=false).",
    ErrorCode.MESSAGE_TOO_LARGE: "The message is larger than the broker accepts (max.message.bytes of the topic).",
}


def refusal(number: int, broker_message: str | None, subject: str) -> ClientError:
    """Describe a refusal in a sentence about `subject`, using the broker's message if there is no better one."""
    code = error_code(number)
    if code in _SENTENCES:
        sentence = _SENTENCES[code].format(subject=subject, object=subject[0].lower() + subject[1:])
        return ClientError(sentence, code, broker_message)
    name = code.name if code == number else f"error {number}"
    text = broker_message or f"{subject}: {name}"
    text = text[0].upper() + text[1:]
    return ClientError(text if text.endswith((".", "!", "?")) else f"{text}.", code, broker_message)


class _Answer(Protocol):
    error_code: int


def check_accepted(subject: str, *answers: _Answer) -> None:
    """Raise the first refusal among responses or their parts, as a sentence about `subject`."""
    for answer in answers:
        if answer.error_code:
            raise refusal(answer.error_code, getattr(answer, "error_message", None), subject)


# Messages of Kafka's own client for codes without a message.
_KAFKAS_WORDS = {
    ErrorCode.GROUP_ID_NOT_FOUND: "The group id does not exist.",
    ErrorCode.NON_EMPTY_GROUP: "The group is not empty.",
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: "This server does not host this topic-partition.",
    ErrorCode.NOT_LEADER_OR_FOLLOWER: "For requests intended only for the leader, this error indicates that the "
    "broker is not the current leader. For requests intended for any replica, this error indicates that the broker is "
    "not a replica of the topic partition.",
    ErrorCode.LEADER_NOT_AVAILABLE: "There is no leader for this topic-partition.",
    ErrorCode.INVALID_PRODUCER_EPOCH: "Producer attempted to produce with an old epoch.",
    ErrorCode.TRANSACTION_COORDINATOR_FENCED: "Indicates that the transaction coordinator sending a WriteTxnMarker is "
    "no longer the current coordinator for a given producer.",
    ErrorCode.INVALID_UPDATE_VERSION: "The given update version was invalid.",
    ErrorCode.FEATURE_UPDATE_FAILED: "Unable to update finalized features due to an unexpected server error.",
    ErrorCode.UNSUPPORTED_VERSION: "The version of API is not supported.",
    ErrorCode.SECURITY_DISABLED: "Security features are disabled.",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "Cluster authorization failed.",
    ErrorCode.INVALID_PRINCIPAL_TYPE: "Supplied principalType is not supported.",
    ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED: "Delegation Token feature is not enabled.",
    ErrorCode.DELEGATION_TOKEN_NOT_FOUND: "Delegation Token is not found on server.",
    ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH: "Specified Principal is not valid Owner/Renewer.",
    ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED: "Delegation Token requests are not allowed on PLAINTEXT/1-way SSL "
    "channels and on delegation token authenticated channels.",
    ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED: "Delegation Token authorization failed.",
    ErrorCode.DELEGATION_TOKEN_EXPIRED: "Delegation Token is expired.",
}


def in_kafkas_words(number: int, broker_message: str | None = None) -> ClientError:
    """Build a refusal as Kafka's tools print it: the broker's message, or that of Kafka's client."""
    error = refusal(number, broker_message, "It")
    code = error_code(number)
    return ClientError(broker_message or _KAFKAS_WORDS.get(code, error.message), code)


def check_in_kafkas_words(*answers: _Answer) -> None:
    """Like `check_accepted`, with the messages of Kafka's tools."""
    for answer in answers:
        if answer.error_code:
            raise in_kafkas_words(answer.error_code, getattr(answer, "error_message", None))
