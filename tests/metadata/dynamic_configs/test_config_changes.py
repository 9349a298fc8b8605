"""Set, delete, append and subtract. The expected values come from a Kafka 4.3 broker."""

from __future__ import annotations

import pytest

from ottla.metadata.configs.topic_configs import TOPIC_CONFIGS
from ottla.metadata.dynamic_configs.dynamic_broker_config import ConfigChange, Operation, changed, replaced
from ottla.protocol.errors import ErrorCode, KafkaError

SET, DELETE, APPEND, SUBTRACT = Operation


def after(before: dict[str, str], *changes: tuple[int, str, str | None]) -> dict[str, str]:
    return changed(
        before,
        [ConfigChange(name, operation, value) for operation, name, value in changes],
        TOPIC_CONFIGS.get,
    )


def test_setting_and_deleting() -> None:
    assert after({"a": "1"}, (SET, "b", "2"), (DELETE, "a", None)) == {"b": "2"}
    assert after({}, (DELETE, "never.set", "ignored")) == {}


@pytest.mark.parametrize(
    ("before", "operation", "value", "expected"),
    [
        (None, APPEND, "compact", "delete,compact"),
        ("compact", APPEND, "compact", "compact"),
        ("delete,compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "delete", "compact"),
        ("compact", SUBTRACT, "compact", ""),
        ("", APPEND, "delete,compact,delete", "delete,compact"),
    ],
)
def test_members_of_lists(before: str | None, operation: int, value: str, expected: str) -> None:
    configs = {} if before is None else {"cleanup.policy": before}
    assert after(configs, (operation, "cleanup.policy", value)) == {"cleanup.policy": expected}


@pytest.mark.parametrize(
    ("changes", "code", "message"),
    [
        (
            [(APPEND, "retention.ms", "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't APPEND to key retention.ms because its type is not LIST.",
        ),
        (
            [(SUBTRACT, "unheard.of", "1")],
            ErrorCode.INVALID_CONFIG,
            "Can't SUBTRACT to key unheard.of because its type is not LIST.",
        ),
        (
            [(SET, "flush.ms", "1"), (SET, "flush.ms", "2")],
            ErrorCode.INVALID_REQUEST,
            "Error due to duplicate config keys",
        ),
        ([(SET, "flush.ms", None)], ErrorCode.INVALID_REQUEST, "Null value not supported for : flush.ms"),
        ([(9, "flush.ms", "1")], ErrorCode.INVALID_REQUEST, "Unknown configuration operation 9"),
    ],
)
def test_changes_that_make_no_sense(
    changes: list[tuple[int, str, str | None]], code: ErrorCode, message: str
) -> None:
    with pytest.raises(KafkaError) as error:
        after({}, *changes)
    assert (error.value.code, error.value.message) == (code, message)


def test_replacing_takes_exactly_what_is_named() -> None:
    assert replaced([("a", "1"), ("b", "")]) == {"a": "1", "b": ""}
    for configs, message in (
        ([("a", "1"), ("a", "2")], "Error due to duplicate config keys"),
        ([("a", None)], "Null value not supported for : a"),
    ):
        with pytest.raises(KafkaError) as error:
            replaced(configs)
        assert (error.value.code, error.value.message) == (ErrorCode.INVALID_REQUEST, message)
