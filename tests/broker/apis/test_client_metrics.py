"""Client metrics subscriptions (KIP-714), as Apache Kafka 4.3 keeps them without a receiver plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest
from ottla.protocol.messages.configs import ListConfigResourcesRequest
from ottla.testing import Broker
from tests.broker.apis.test_config_apis import (
    APPEND,
    CLIENT_METRICS,
    DELETE,
    SET,
    change,
    config,
    describe,
    replace,
)
from tests.wire_client import WireClient

INVALID_REQUEST, INVALID_CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG
GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY = 71, 72


def listed(client: WireClient, version: int = 1) -> list[str]:
    types = [CLIENT_METRICS] if version else []
    answer: Any = client.call(ListConfigResourcesRequest(resource_types=types), version)
    return [each.resource_name for each in answer.config_resources]


def test_a_subscription_that_nobody_made_has_defaults(client: WireClient) -> None:
    found = describe(client, CLIENT_METRICS, "nobodys", include_synonyms=True)
    assert [(each.name, each.value, each.config_source, each.synonyms) for each in found.configs] == [
        ("interval.ms", "300000", 5, []),
        ("match", "", 5, []),
        ("metrics", "", 5, []),
    ]
    assert "nobodys" not in listed(client)


@pytest.mark.parametrize("version", range(2))
def test_a_subscription_is_made_described_listed_and_deleted(client: WireClient, version: int) -> None:
    name = f"made/{version}"
    wanted = {"interval.ms": "5000", "metrics": "org.apache.kafka.producer.,*", "match": "client_id=app.*"}
    assert change(client, CLIENT_METRICS, name, *((SET, *each) for each in wanted.items())) == (0, None)
    found = describe(client, CLIENT_METRICS, name, include_synonyms=True).configs
    assert {each.name: each.value for each in found} == wanted
    assert {each.config_source for each in found} == {7}
    assert [(each.name, each.value, each.source) for each in found[0].synonyms] == [
        ("interval.ms", "5000", 7)
    ]
    assert listed(client, version) == [name]
    assert replace(client, CLIENT_METRICS, name, {"metrics": "a"}) == (0, None)
    assert config(client, CLIENT_METRICS, name, "interval.ms").value == "300000"
    assert change(client, CLIENT_METRICS, name, (DELETE, "metrics", None)) == (0, None)
    assert listed(client, version) == []


def test_subscriptions_survive_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        with WireClient(broker.bootstrap_servers) as client:
            assert change(client, CLIENT_METRICS, "kept", (SET, "interval.ms", "500")) == (0, None)
        broker.restart()
        with WireClient(broker.bootstrap_servers) as client:
            assert listed(client) == ["kept"]
            assert config(client, CLIENT_METRICS, "kept", "interval.ms").value == "500"


@pytest.mark.parametrize(
    ("key", "value", "code", "reason"),
    [
        ("nope", "1", INVALID_REQUEST, "Unknown client metrics configuration: nope"),
        (
            "interval.ms",
            "99",
            INVALID_REQUEST,
            "Invalid value 99 for interval.ms, interval must be between 100 and 3600000 (1 hour)",
        ),
        (
            "interval.ms",
            "x",
            INVALID_CONFIG,
            "Invalid value x for configuration interval.ms: Not a number of type INT",
        ),
        ("metrics", "a,,b", INVALID_CONFIG, "Configuration 'metrics' values must not be empty."),
        *(
            ("match", pair, INVALID_CONFIG, f"Illegal client matching pattern: {pair}")
            for pair in ("client_id", "client_id=", "client_id=[", "nope=x", "=x", "client_id=a=b")
        ),
    ],
)
def test_what_cannot_be_subscribed_to(
    client: WireClient, key: str, value: str, code: ErrorCode, reason: str
) -> None:
    assert change(client, CLIENT_METRICS, "m", (SET, key, value)) == (code, reason)
    assert replace(client, CLIENT_METRICS, "m", {key: value}) == (code, reason)


def test_a_subscription_has_a_name_and_is_set_as_a_whole(client: WireClient) -> None:
    refused = describe(client, CLIENT_METRICS, "")
    assert (refused.error_code, refused.error_message) == (
        INVALID_REQUEST,
        "Client metrics subscription name must not be empty",
    )
    assert change(client, CLIENT_METRICS, "", (SET, "metrics", "a")) == (
        INVALID_REQUEST,
        "Subscription name can't be empty",
    )
    assert change(client, CLIENT_METRICS, "m", (APPEND, "metrics", "a")) == (
        INVALID_CONFIG,
        "Can't APPEND to key metrics because its type is not LIST.",
    )


def test_clients_are_not_asked_to_push(client: WireClient) -> None:
    request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
    answer: Any = client.call(request, 3)
    served = {each.api_key for each in answer.api_keys}
    assert served.isdisjoint({GET_TELEMETRY_SUBSCRIPTIONS, PUSH_TELEMETRY})
