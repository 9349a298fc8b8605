"""Overrides are altered step by step as Kafka 4.3 does it."""

from __future__ import annotations

import pytest

from ottla.metadata.alter_configs import Alteration, AlterOperation, alter_configs
from ottla.metadata.topic_configs import TOPIC_CONFIGS
from ottla.protocol.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def altered(overrides: dict[str, str], *alterations: tuple[str, int, str | None]) -> dict[str, str]:
    return alter_configs(overrides, [Alteration(*each) for each in alterations], TOPIC_CONFIGS.get)


def test_a_value_is_set_and_deleted() -> None:
    before = {"segment.ms": "1"}
    assert altered(before, ("retention.ms", SET, "5"), ("segment.ms", DELETE, None)) == {"retention.ms": "5"}
    assert before == {"segment.ms": "1"}


def test_deleting_what_is_not_there_is_fine() -> None:
    assert altered({}, ("nonsense", DELETE, None)) == {}


@pytest.mark.parametrize(
    ("overrides", "operation", "value", "expected"),
    [
        ({}, APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, APPEND, "compact", "delete,compact"),
        ({"cleanup.policy": "delete,compact"}, SUBTRACT, "delete", "compact"),
        ({"cleanup.policy": "compact"}, SUBTRACT, "compact,delete", ""),
    ],
)
def test_a_list_grows_and_shrinks_from_its_default(
    overrides: dict[str, str], operation: int, value: str, expected: str
) -> None:
    assert altered(overrides, ("cleanup.policy", operation, value)) == {"cleanup.policy": expected}


@pytest.mark.parametrize(
    ("alterations", "code", "message"),
    [
        (
            [("retention.ms", SUBTRACT, "5")],
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key retention.ms because its type is not LIST.",
        ),
        (
            [("nonsense", APPEND, "5")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key nonsense because its type is not LIST.",
        ),
        (
            [("retention.ms", SET, None)],
            ErrorCode.INVALID_REQUEST,
            "Null value not supported for : retention.ms",
        ),
        (
            [("retention.ms", SET, "5"), ("retention.ms", DELETE, None)],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        (
            [("retention.ms", 9, "5")],
            ErrorCode.INVALID_REQUEST,
            "Unknown alter operation 9 for retention.ms",
        ),
    ],
)
def test_what_kafka_refuses_is_refused_in_its_words(
    alterations: list[tuple[str, int, str | None]], code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError) as caught:
        altered({}, *alterations)
    assert (caught.value.code, caught.value.message) == (code, message)
