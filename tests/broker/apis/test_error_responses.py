"""Promise: the response to a request that fails as a whole repeats the error for every requested item, in every
version.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from importlib import import_module
from itertools import count
from typing import Any

import pytest

from ottla.broker.apis import served_keys
from ottla.broker.network import error_responses
from ottla.broker.network.request_context import CloseConnection
from ottla.protocol.codec import Field, Request, Response, Struct
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.testing import Broker
from tests.broker.network.large_requests import to_the_end
from tests.wire_client import WireClient

DENIED = KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "denied")
VERSIONS = [
    (key, version)
    for key in sorted(served_keys())
    for version in range(request_type(key).versions[0], request_type(key).versions[1] + 1)
]
# Request lists that name the requested items, and the key fields of their entries.
NAMING = {
    *(
        "coordinator_keys",
        "dirs",
        "entity",
        "entries",
        "group_ids",
        "groups",
        "groups_names",
        "markers",
        "members",
    ),
    *(
        "partition_data",
        "partition_indexes",
        "partitions",
        "resources",
        "topic_data",
        "topic_names",
        "topics",
    ),
    *("transactional_ids", "transactions", "users", "v3_and_below_topics"),
}
NAMES = {
    *(
        "entity_name",
        "group_id",
        "index",
        "name",
        "partition",
        "partition_index",
        "resource_name",
    ),
    *("topic", "topic_id", "topic_name", "transactional_id"),
}
# Responses whose lists differ from the request: LeaveGroup, OffsetDelete, UpdateFeatures and the share group APIs.
TOP_ONLY = {13, 47, 57, 78, 79, 91, 92}
LISTING = {"ListPartitionReassignments", "ConsumerGroupHeartbeat", "DescribeLogDirs"}


def refuse(request: Request, error: KafkaError = DENIED) -> Response:
    module = import_module(served_keys()[request.api_key])
    response = getattr(module, "error_response", error_responses.error_response)(request, error)
    return to_the_end(response) if isinstance(response, Generator) else response


def filled(of: type[Any], numbers: Iterator[int]) -> Any:
    """Return a message with two entries in each list and a unique value in each field."""
    return of(**{name: value(field, numbers) for name, field in of.fields.items()})


def value(field: Field, numbers: Iterator[int]) -> Any:
    if field.kind == "array":
        return [
            filled(field.struct, numbers) if field.struct else value(field.element, numbers)  # type: ignore[arg-type]
            for _ in range(2)
        ]
    match field.kind:
        case "struct":
            return None if field.default is None else filled(field.struct, numbers)  # type: ignore[arg-type]
        case "string":
            return f"text {next(numbers)}"
        case "uuid":
            return next(numbers).to_bytes(16, "big")
        case "binary" | "records":
            return b""
        case "boolean":
            return True
        case "float64":
            return 0.5
        case _:
            return next(numbers)


def asked_for(request: Struct, version: int, inside: bool = False) -> Iterator[Any]:
    """Return the names in a request, as far as the version carries them."""
    for name, field in type(request).fields.items():
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        content = getattr(request, name)
        if isinstance(content, list) and name in NAMING:
            for each in content:
                if isinstance(each, Struct):
                    yield from asked_for(each, version, inside=True)
                else:
                    yield each
        elif inside and name in NAMES:
            yield content


def values(answer: Struct, version: int) -> Iterator[tuple[str, Any]]:
    for name, field in type(answer).fields.items():
        if not field.versions[0] <= version <= field.versions[1]:
            continue
        content = getattr(answer, name)
        for each in content if isinstance(content, list) else [content]:
            if isinstance(each, Struct):
                yield from values(each, version)
            else:
                yield name, each


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{API_NAMES[k]}-{v}" for k, v in VERSIONS])
def test_the_error_stands_with_everything_that_was_asked_for(key: int, version: int) -> None:
    request = request_type(key).decode(filled(request_type(key), count(1)).encode(version), version)
    response = response_type(key).decode(refuse(request).encode(version), version)
    answered = list(values(response, version))
    codes = [code for name, code in answered if name in ("error_code", "partition_error_code")]
    if API_NAMES[key] == "DescribeLogDirs" and version < 3:
        assert not codes, "there is no place for it, as in Kafka"
        return
    assert codes
    assert set(codes) == {DENIED.code}
    if key in TOP_ONLY or (API_NAMES[key] == "AddPartitionsToTxn" and version >= 4):
        assert len(codes) == 1, "clients look at the top, as with Kafka"
    elif API_NAMES[key] not in LISTING:
        assert set(asked_for(request, version)) <= {each for _, each in answered if each}


@pytest.mark.parametrize("key", [30, 31])
def test_what_has_no_name_is_answered_in_its_place(key: int) -> None:
    answered = refuse(filled(request_type(key), count(1)))
    results = getattr(answered, "results" if key == 30 else "filter_results")
    assert [(each.error_code, each.error_message) for each in results] == [(DENIED.code, "denied")] * 2


def test_a_produce_that_expects_no_response_is_answered_by_hanging_up() -> None:
    with pytest.raises(CloseConnection):
        refuse(ProduceRequest(acks=0, topic_data=[]))


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        (KafkaError(ErrorCode.POLICY_VIOLATION), ErrorCode.POLICY_VIOLATION),
        (OSError(28, "No space left on device"), ErrorCode.KAFKA_STORAGE_ERROR),
        (RuntimeError("a bug"), ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_handler_that_fails_is_answered_and_the_connection_goes_on(
    failure: Exception, code: ErrorCode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise failure

    with Broker() as broker, WireClient(broker.bootstrap_servers) as client:
        broker.create_topic("t")
        api = broker._running().broker.dispatcher.api(ProduceRequest.api_key)
        assert api is not None
        monkeypatch.setattr(api, "handler", fail)
        data = [PartitionProduceData(index=index, records=b"x") for index in (0, 1)]
        asked = ProduceRequest(acks=1, topic_data=[TopicProduceData(name="t", partition_data=data)])
        for _ in range(2):
            [topic] = client.call(asked, 9).responses
            assert topic.name == "t"
            assert [(each.index, each.error_code) for each in topic.partition_responses] == [
                (0, code),
                (1, code),
            ]


@pytest.mark.parametrize("key", dict.fromkeys(key for key, _ in VERSIONS), ids=API_NAMES.get)
def test_a_large_request_is_refused_in_the_same_words(key: int) -> None:
    request = filled(request_type(key), count(1))
    whole = error_responses.error_response(request, DENIED)
    assert to_the_end(error_responses.error_response_in_slices(request, DENIED)) == whole


@pytest.mark.parametrize(("key", "version"), VERSIONS, ids=[f"{API_NAMES[k]}-{v}" for k, v in VERSIONS])
def test_a_request_that_names_nothing_has_an_error_response_too(key: int, version: int) -> None:
    of = request_type(key)
    empty = {
        name: None for name, field in of.fields.items() if field.kind == "array" and field.nullable[1] > 0
    }
    request = of(**empty)
    if isinstance(request, ProduceRequest):
        request.acks = 1
    assert response_type(key).decode(refuse(request).encode(version), version)
