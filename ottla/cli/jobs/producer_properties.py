"""Whether a producer is idempotent: what Kafka's own decides from its properties, and in its words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.cli.errors import JobError
from ottla.protocol.errors import ErrorCode

_MOST_IN_FLIGHT = 5
# librdkafka has a second name for each.
_ACKS = ("acks", "request.required.acks")
_RETRIES = ("retries", "message.send.max.retries")
_IN_FLIGHT = ("max.in.flight.requests.per.connection", "max.in.flight")


def idempotence(properties: Mapping[str, Any], default: bool = True) -> bool:
    """`default` applies without enable.idempotence.

    Conflicting settings turn it off, unless it was requested explicitly. Since 4.0 Kafka's producer refuses too many
    requests in flight, even if idempotence is only the default; older versions did as we do.
    """
    asked = "enable.idempotence" in properties
    enabled = str(properties.get("enable.idempotence", default)).lower() == "true"
    refused = [sentence for conflict, sentence in _conflicts(properties) if conflict] if enabled else []
    if asked and refused:
        raise _invalid(refused[0])
    enabled = enabled and not refused
    if not enabled and properties.get("transactional.id"):
        raise _invalid("Cannot set a transactional.id without also enabling idempotence.")
    return enabled


def _conflicts(properties: Mapping[str, Any]) -> list[tuple[bool, str]]:
    in_flight = _value(properties, _IN_FLIGHT) or ""
    return [
        (
            _value(properties, _RETRIES) == "0",
            "Must set retries to non-zero when using the idempotent producer.",
        ),
        (
            _value(properties, _ACKS) not in (None, "all", "-1"),
            "Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
            "idempotence.",
        ),
        (
            in_flight.isdecimal() and int(in_flight) > _MOST_IN_FLIGHT,
            f"To use the idempotent producer, {_IN_FLIGHT[0]} must be set to at most {_MOST_IN_FLIGHT}. "
            f"Current value is {in_flight}.",
        ),
    ]


def acks_all(properties: Mapping[str, Any]) -> bool:
    return _value(properties, _ACKS) in (None, "all", "-1")


def _value(properties: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    found = [str(properties[name]).strip() for name in names if name in properties]
    return found[-1] if found else None


def _invalid(sentence: str) -> JobError:
    return JobError(sentence, ErrorCode.INVALID_CONFIG)
