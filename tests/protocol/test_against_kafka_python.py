"""kafka-python decodes each message and encodes the same bytes, for the APIs it supports."""

from __future__ import annotations

import kafka.protocol.admin
import kafka.protocol.consumer
import kafka.protocol.metadata
import kafka.protocol.producer
import kafka.protocol.sasl
import pytest

from ottla.protocol.codec import Data
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.protocol.messages.cluster import ApiVersionsResponse

THEIR_MODULES = (
    kafka.protocol.admin,
    kafka.protocol.consumer,
    kafka.protocol.metadata,
    kafka.protocol.producer,
    kafka.protocol.sasl,
)


def theirs(ours: type[Data]):
    return next((getattr(m, ours.__name__) for m in THEIR_MODULES if hasattr(m, ours.__name__)), None)


SHARED = [
    ours for key in API_NAMES for ours in (request_type(key), response_type(key)) if theirs(ours) is not None
]


def test_most_apis_are_shared() -> None:
    assert len(SHARED) > 80


@pytest.mark.parametrize("message", SHARED, ids=lambda message: message.__name__)
def test_random_messages_survive_kafka_python(message: type[Data], random_message) -> None:
    other = theirs(message)
    for version in range(message.versions[0], min(message.versions[1], other.max_version) + 1):
        for seed in range(5):
            ours = random_message(message, version, seed)
            if message is ApiVersionsResponse:
                ours.error_code = 0  # after an error it expects version 0 and nothing else
            wire = ours.encode(version)
            decoded = other.decode(wire, version=version)
            decoded._header = None  # its decoder forgets to set it
            assert decoded.encode(version=version) == wire, (version, seed)
