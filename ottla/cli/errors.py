"""Errors as sentences: jobs raise them, the command prints them and exits with 1."""

from __future__ import annotations

from importlib.util import find_spec
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

# Errors as sentences: jobs raise them, the command prints them and exits with 1.
#
# They are the client's errors. Errors of librdkafka while producing and consuming become one of them here.

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


# Parts of Ottla that need more packages than the plain install has, and the extra that brings them.

# Parts that need each extra, and modules of the extra.
_EXTRAS = {
    "registry": ("The schema registry", ("httptools", "jsonschema_rs", "google.protobuf")),
    "rest": ("The REST proxy", ("httptools", "aiokafka", "fastavro", "jsonschema_rs", "google.protobuf")),
    "console": ("The console", ("httptools", "jinja2", "msgspec")),
    "mcp": ("The MCP server", ("mcp", "httptools", "jinja2", "msgspec")),
    "spark": ("Spark", ("pyspark", "pyarrow", "sqlglot", "prompt_toolkit", "lmdb", "numba", "numpy", "h2", "wsproto")),
    "connect": ("Connect", ("httptools", "pyspark")),
    "java-connectors": ("Connectors in Java", ("jpype",)),
    "delta": ("Delta tables", ("deltalake",)),
    "tables": ("Tables", ("pyspark", "pyiceberg", "pyiceberg_core", "sqlalchemy", "deltalake")),
    "kerberos": ("Logins with Kerberos", ("gssapi",)),
}  # fmt: skip


def require(extra: str) -> None:
    """Raise JobError with the command to type if packages of the extra are missing."""
    what, modules = _EXTRAS[extra]
    if any(not _is_installed(module) for module in modules):
        raise JobError(f"{what} needs packages that are not installed: {_command(extra)}.")


def missing_package(error: ModuleNotFoundError) -> str | None:
    """Return a sentence for a module that an extra would have brought; None for any other."""
    name = error.name or ""
    for extra, (_, modules) in _EXTRAS.items():
        if any(name == module or name.startswith(f"{module}.") for module in modules):
            return f"This needs the package {name}, which is not installed: {_command(extra)}."
    return None


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # not even its parent
        return False


def _command(extra: str) -> str:
    return f"pip install 'ottla[{extra}]'"
