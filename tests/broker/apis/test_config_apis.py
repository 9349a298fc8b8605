"""DescribeConfigs, AlterConfigs, IncrementalAlterConfigs and ListConfigResources on the wire.

The expected values are Apache Kafka 4.3's responses.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import configs as messages
from ottla.protocol.messages.configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    ListConfigResourcesRequest,
)
from ottla.testing import Broker
from tests.wire_client import WireClient

TOPIC, BROKER, LOGGER, CLIENT_METRICS, GROUP = 2, 4, 8, 16, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
_names = count()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"config-{next(_names)}"
    broker.create_topic(name)
    return name


def describe(
    client: WireClient, kind: int, name: str, keys: list[str] | None = None, version: int = 4, **options: bool
) -> Any:
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=keys)
    answer: Any = client.call(DescribeConfigsRequest(resources=[resource], **options), version)
    [result] = answer.results
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result


def config(client: WireClient, kind: int, name: str, key: str, **options: bool) -> Any:
    [found] = describe(client, kind, name, [key], **options).configs
    return found


def change(
    client: WireClient,
    kind: int,
    name: str,
    *changes: tuple[int, str, str | None],
    version: int = 1,
    validate_only: bool = False,
) -> tuple[int, str | None]:
    configs = [
        messages.IncrementalConfig(name=key, config_operation=operation, value=value)
        for operation, key, value in changes
    ]
    resource = messages.IncrementalConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    request = messages.IncrementalAlterConfigsRequest(resources=[resource], validate_only=validate_only)
    answer: Any = client.call(request, version)
    [result] = answer.responses
    assert (result.resource_type, result.resource_name) == (kind, name)
    return result.error_code, result.error_message


def replace(
    client: WireClient, kind: int, name: str, configs: dict[str, str | None], version: int = 2
) -> tuple[int, str | None]:
    entries = [messages.AlterableConfig(name=key, value=value) for key, value in configs.items()]
    resource = messages.AlterConfigsResource(resource_type=kind, resource_name=name, configs=entries)
    answer: Any = client.call(messages.AlterConfigsRequest(resources=[resource]), version)
    [result] = answer.responses
    return result.error_code, result.error_message


# Describing


@pytest.mark.parametrize("version", range(1, 5))
def test_every_version_describes_a_topic(client: WireClient, topic: str, version: int) -> None:
    result = describe(client, TOPIC, topic, version=version)
    assert (result.error_code, len(result.configs)) == (ErrorCode.NONE, 37)
    values = {each.name: each.value for each in result.configs}
    assert values["retention.ms"] == "604800000"
    types = {each.name: each.config_type for each in result.configs}
    assert types["cleanup.policy"] == (7 if version >= 3 else 0)


def test_synonyms_and_documentation_only_on_request(client: WireClient, topic: str) -> None:
    plain = config(client, TOPIC, topic, "max.message.bytes")
    assert (plain.synonyms, plain.documentation) == ([], None)
    full = config(
        client, TOPIC, topic, "max.message.bytes", include_synonyms=True, include_documentation=True
    )
    assert [(each.name, each.value, each.source) for each in full.synonyms] == [
        ("message.max.bytes", "1048588", 5)
    ]
    assert full.documentation


def test_keys_choose_and_unknown_ones_are_left_out(client: WireClient, topic: str) -> None:
    result = describe(client, TOPIC, topic, ["flush.ms", "nonsense", "flush.ms"])
    assert [each.name for each in result.configs] == ["flush.ms"]
    assert len(describe(client, TOPIC, topic, []).configs) == 37


def test_a_broker_shows_what_can_be_changed_and_hides_secrets(client: WireClient) -> None:
    configs = {each.name: each for each in describe(client, BROKER, "0").configs}
    assert configs["num.partitions"].read_only
    assert configs["num.partitions"].config_source == 4
    assert not configs["log.retention.ms"].read_only
    secret = configs["ssl.keystore.password"]
    assert (secret.value, secret.is_sensitive) == (None, True)
    assert describe(client, BROKER, "").configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ""),
        (
            TOPIC,
            "",
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            "Topic name is invalid: the empty string is not allowed",
        ),
        (
            BROKER,
            "2",
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 0 or empty string, but received 2",
        ),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST, "Broker id must be an integer, but it is: abc"),
        (LOGGER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0 but received 2"),
        (LOGGER, "", ErrorCode.INVALID_REQUEST, "Broker id must not be empty"),
        (99, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 99"),
    ],
)
def test_what_cannot_be_described(
    client: WireClient, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    result = describe(client, kind, name)
    assert (result.error_code, result.error_message, result.configs) == (code, message, [])


# Altering topics


@pytest.mark.parametrize("version", range(2))
def test_every_version_changes_single_configs(client: WireClient, topic: str, version: int) -> None:
    assert change(client, TOPIC, topic, (SET, "retention.ms", "5"), version=version) == (0, None)
    assert change(client, TOPIC, topic, (APPEND, "cleanup.policy", "compact"), version=version) == (0, None)
    found = config(client, TOPIC, topic, "cleanup.policy", include_synonyms=True)
    assert (found.value, found.config_source) == ("delete,compact", 1)
    assert [(each.name, each.value) for each in found.synonyms] == [
        ("cleanup.policy", "delete,compact"),
        ("log.cleanup.policy", "delete"),
    ]
    assert change(client, TOPIC, topic, (SUBTRACT, "cleanup.policy", "delete"), version=version) == (0, None)
    assert config(client, TOPIC, topic, "cleanup.policy").value == "compact"
    assert change(client, TOPIC, topic, (DELETE, "retention.ms", None), version=version) == (0, None)
    assert config(client, TOPIC, topic, "retention.ms").config_source == 5


@pytest.mark.parametrize("version", range(3))
def test_every_version_replaces_everything(client: WireClient, topic: str, version: int) -> None:
    assert replace(client, TOPIC, topic, {"retention.ms": "5"}, version) == (0, None)
    assert replace(client, TOPIC, topic, {"flush.ms": "7"}, version) == (0, None)
    assert config(client, TOPIC, topic, "retention.ms").value == "604800000"
    assert config(client, TOPIC, topic, "flush.ms").value == "7"


def test_a_change_is_all_or_nothing(client: WireClient, topic: str) -> None:
    code, _ = change(client, TOPIC, topic, (SET, "flush.ms", "7"), (SET, "retention.ms", "soon"))
    assert code == ErrorCode.INVALID_CONFIG
    assert change(client, TOPIC, topic, (SET, "flush.ms", "7"), validate_only=True) == (0, None)
    assert config(client, TOPIC, topic, "flush.ms").config_source == 5


def test_a_change_is_in_force_at_once(client: WireClient, broker: Broker, topic: str) -> None:
    broker.produce(topic, b"x" * 1000)
    change(client, TOPIC, topic, (SET, "max.message.bytes", "500"))
    with pytest.raises(Exception, match="MESSAGE_TOO_LARGE"):
        broker.produce(topic, b"x" * 1000)


@pytest.mark.parametrize(
    ("kind", "name", "code", "message"),
    [
        (TOPIC, "nowhere", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'nowhere' does not exist."),
        (TOPIC, "", ErrorCode.INVALID_REQUEST, "Default topic resources are not allowed."),
        (BROKER, "2", ErrorCode.INVALID_REQUEST, "Unexpected broker id, expected 0, but received 2"),
        (BROKER, "abc", ErrorCode.INVALID_REQUEST, "Node id must be an integer, but it is: abc"),
        (0, "x", ErrorCode.INVALID_REQUEST, "Unknown resource type 0"),
    ],
)
def test_what_cannot_be_altered(
    client: WireClient, kind: int, name: str, code: ErrorCode, message: str
) -> None:
    assert change(client, kind, name, (SET, "flush.ms", "7")) == (code, message)
    assert replace(client, kind, name, {"flush.ms": "7"}) == (code, message)


def test_each_resource_is_named_once(client: WireClient, topic: str) -> None:
    twice = messages.IncrementalConfigsResource(resource_type=TOPIC, resource_name=topic, configs=[])
    unknown = messages.IncrementalConfigsResource(resource_type=TOPIC, resource_name="nowhere", configs=[])
    answer: Any = client.call(messages.IncrementalAlterConfigsRequest(resources=[twice, twice, unknown]))
    assert [each.error_code for each in answer.responses] == [
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


# Altering brokers


@pytest.fixture
def own(tmp_path: Path) -> Iterator[Broker]:
    with Broker(data=tmp_path) as running:
        yield running


def test_broker_configs_are_inherited_and_survive_a_restart(own: Broker) -> None:
    own.create_topic("t")
    with WireClient(own.bootstrap_servers) as client:
        assert change(client, BROKER, "0", (SET, "log.retention.ms", "5000")) == (0, None)
        assert change(client, BROKER, "", (SET, "log.retention.ms", "6000")) == (0, None)
    own.restart()
    with WireClient(own.bootstrap_servers) as client:
        found = config(client, TOPIC, "t", "retention.ms", include_synonyms=True)
        assert (found.value, found.config_source) == ("5000", 2)
        assert [(each.name, each.value, each.source) for each in found.synonyms][:2] == [
            ("log.retention.ms", "5000", 2),
            ("log.retention.ms", "6000", 3),
        ]
        assert [each.name for each in describe(client, BROKER, "").configs] == ["log.retention.ms"]
        change(client, BROKER, "0", (DELETE, "log.retention.ms", None))
        assert config(client, TOPIC, "t", "retention.ms").value == "6000"


def test_what_needs_a_restart_is_refused(client: WireClient) -> None:
    refusal = (ErrorCode.INVALID_REQUEST, "Cannot update these configs dynamically: [num.partitions]")
    assert change(client, BROKER, "0", (SET, "num.partitions", "3")) == refusal
    assert replace(client, BROKER, "", {"num.partitions": "3"}) == refusal


# ListConfigResources


def test_resources_are_listed(client: WireClient, topic: str) -> None:
    def listed(*types: int, version: int = 1) -> Any:
        return client.call(ListConfigResourcesRequest(resource_types=list(types)), version)

    everything = {(each.resource_type, each.resource_name) for each in listed().config_resources}
    assert {(TOPIC, topic), (BROKER, "0"), (LOGGER, "0")} <= everything
    assert {each.resource_type for each in listed(BROKER).config_resources} == {BROKER}
    assert listed(CLIENT_METRICS, GROUP).config_resources == []
    assert listed(99).error_code == ErrorCode.UNSUPPORTED_VERSION
    assert listed(version=0).config_resources == []
