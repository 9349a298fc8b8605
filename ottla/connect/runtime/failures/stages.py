"""The stages at which a record can fail, with Kafka's names, and Kafka's exceptions for failures."""

from __future__ import annotations

import enum
import traceback
from dataclasses import dataclass

from ottla.client.errors import ClientError
from ottla.connect.config.config_def import ConfigError
from ottla.connect.errors import ConnectError, DataError, RetriableError


class Stage(enum.StrEnum):
    TASK_POLL = "TASK_POLL"
    TRANSFORMATION = "TRANSFORMATION"
    HEADER_CONVERTER = "HEADER_CONVERTER"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    KAFKA_PRODUCE = "KAFKA_PRODUCE"
    KAFKA_CONSUME = "KAFKA_CONSUME"
    TASK_PUT = "TASK_PUT"


@dataclass(frozen=True, slots=True)
class Failure:
    stage: Stage
    #: The failing class: a converter, a transform or a task.
    executing: str
    error: Exception

    @property
    def exception_class(self) -> str:
        return java_exception(self.error)

    @property
    def message(self) -> str:
        return message_of(self.error)

    @property
    def stack_trace(self) -> str:
        lines = "".join(traceback.format_exception(self.error))
        return f"{self.exception_class}: {self.message}\n{lines}"


_JAVA = (
    (ConfigError, "org.apache.kafka.common.config.ConfigException"),
    (DataError, "org.apache.kafka.connect.errors.DataException"),
    (RetriableError, "org.apache.kafka.connect.errors.RetriableException"),
    (ConnectError, "org.apache.kafka.connect.errors.ConnectException"),
)


def java_exception(error: Exception) -> str:
    """Return the name of Kafka's corresponding exception, or else Python's."""
    for kind, name in _JAVA:
        if isinstance(error, kind):
            return name
    return f"{type(error).__module__}.{type(error).__qualname__}"


def message_of(error: Exception) -> str:
    if isinstance(error, ClientError):
        return error.message
    return str(error) or type(error).__name__
