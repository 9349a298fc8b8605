"""Dynamic log levels of a running broker. The expected values are Apache Kafka 4.3's responses."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.testing import Broker
from tests.broker.apis.test_config_apis import (
    APPEND,
    DELETE,
    LOGGER,
    SET,
    SUBTRACT,
    change,
    config,
    describe,
    replace,
)
from tests.wire_client import WireClient

NAME = "ottla.broker.network.dispatch"
DOCUMENTED = "Valid log levels are DEBUG, ERROR, FATAL, INFO, TRACE, WARN"


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    """Restore the log levels. The broker runs in the test process and shares its loggers."""
    names = ("", "ottla", "ottla.broker", NAME)
    before = {name: logging.getLogger(name).level for name in names}
    yield
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def level(client: WireClient, name: str) -> str:
    value: str = config(client, LOGGER, "0", name).value
    return value


def test_loggers_are_listed_with_their_levels(client: WireClient) -> None:
    loggers = {each.name: each for each in describe(client, LOGGER, "0", include_synonyms=True).configs}
    assert {"root", "ottla", "ottla.broker", NAME, "asyncio"} <= loggers.keys()
    found = loggers[NAME]
    assert (found.config_source, found.config_type, found.read_only, found.synonyms) == (6, 0, False, [])
    assert found.value == loggers["root"].value == "WARN"


@pytest.mark.parametrize(
    ("name", "number"),
    [("FATAL", 50), ("ERROR", 40), ("WARN", 30), ("INFO", 20), ("DEBUG", 10), ("TRACE", 5)],
)
def test_every_level_of_kafka_is_one_of_pythons(client: WireClient, name: str, number: int) -> None:
    assert change(client, LOGGER, "0", (SET, NAME, name)) == (0, None)
    assert level(client, NAME) == name
    assert logging.getLogger(NAME).level == number


def test_what_is_below_a_logger_inherits_from_it(client: WireClient) -> None:
    assert change(client, LOGGER, "0", (SET, "ottla", "DEBUG"), (SET, "ottla.broker", "ERROR")) == (0, None)
    assert level(client, NAME) == "ERROR"
    assert level(client, "ottla.cluster.topics.topic_admin") == "DEBUG"
    assert change(client, LOGGER, "0", (DELETE, "ottla.broker", None)) == (0, None)
    assert level(client, NAME) == "DEBUG"


def test_a_level_is_in_force_at_once(
    broker: Broker, client: WireClient, caplog: pytest.LogCaptureFixture
) -> None:
    def provoke() -> None:
        with WireClient(broker.bootstrap_servers) as other:
            other.socket.sendall(b"\0\0\0\x0a" + b"\x7f" * 10)
            assert other.is_closed()

    provoke()
    assert not caplog.records
    assert change(client, LOGGER, "0", (SET, NAME, "INFO")) == (0, None)
    provoke()
    assert "API key 32639 is not served" in caplog.text


def test_a_change_is_all_or_nothing(client: WireClient) -> None:
    refused = (ErrorCode.INVALID_CONFIG, "Logger no.such does not exist!")
    assert change(client, LOGGER, "0", (SET, NAME, "DEBUG"), (SET, "no.such", "DEBUG")) == refused
    assert change(client, LOGGER, "0", (DELETE, NAME, None), (DELETE, "no.such", None)) == refused
    assert change(client, LOGGER, "0", (SET, NAME, "DEBUG"), validate_only=True) == (0, None)
    assert level(client, NAME) == "WARN"


@pytest.mark.parametrize("value", ["debug", "NOPE", "", "OFF"])
def test_a_level_is_one_of_kafkas(client: WireClient, value: str) -> None:
    assert change(client, LOGGER, "0", (SET, NAME, value)) == (
        ErrorCode.INVALID_CONFIG,
        f"Cannot set the log level of {NAME} to {value} as it is not a supported log level. {DOCUMENTED}",
    )


def test_what_cannot_be_done_to_loggers(client: WireClient) -> None:
    invalid = ErrorCode.INVALID_REQUEST
    for operation, word in ((APPEND, "APPEND"), (SUBTRACT, "SUBTRACT")):
        reason = f"{word} operation is not allowed for the BROKER_LOGGER resource"
        assert change(client, LOGGER, "0", (operation, NAME, "INFO")) == (invalid, reason)
    assert change(client, LOGGER, "0", (DELETE, "root", None)) == (
        invalid,
        "Removing the log level of the root logger is not allowed",
    )
    assert change(client, LOGGER, "2", (SET, NAME, "INFO")) == (
        invalid,
        "Unexpected node id. Expected 0, but received 2",
    )
    assert change(client, LOGGER, "", (SET, NAME, "INFO")) == (
        invalid,
        "Node id must be an integer, but it is: ",
    )
    assert replace(client, LOGGER, "0", {NAME: "INFO"}) == (invalid, "Unknown resource type 8")
