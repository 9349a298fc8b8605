"""Retries and error tolerance for failing records."""

from __future__ import annotations

import logging
import threading

import pytest

from ottla.connect import ConfigError, ConnectError, DataError, RetriableError, SourceRecord
from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.data.schema import INT32
from ottla.connect.runtime.failures.error_handling import ErrorHandling
from ottla.connect.runtime.failures.stages import Failure, Stage, java_exception
from ottla.connect.runtime.records.conversion import SourceConversion

_STRING = "org.apache.kafka.connect.storage.StringConverter"
_BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


def _errors(**settings: str) -> ErrorHandling:
    config = {f"errors.{name.replace('_', '.')}": value for name, value in settings.items()}
    return ErrorHandling(config, "files-0", threading.Event())


class _Flaky:
    def __init__(self, failures: int) -> None:
        self.failures = failures
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        if self.calls <= self.failures:
            raise RetriableError("Not now.")
        return "done"


def test_what_may_go_away_is_tried_again_until_the_timeout() -> None:
    call = _Flaky(3)
    assert _errors(retry_timeout="-1", retry_delay_max_ms="1").retrying(call) == "done"
    assert call.calls == 4


def test_without_a_timeout_nothing_is_tried_again() -> None:
    call = _Flaky(1)
    with pytest.raises(RetriableError):
        _errors().retrying(call)
    assert call.calls == 1


def test_other_failures_are_not_tried_again() -> None:
    calls = []

    def fail() -> None:
        calls.append(1)
        raise DataError("Never.")

    with pytest.raises(DataError):
        _errors(retry_timeout="-1").retrying(fail)
    assert len(calls) == 1


def test_a_failure_counts_as_kafkas_exception() -> None:
    assert java_exception(DataError("")) == "org.apache.kafka.connect.errors.DataException"
    assert java_exception(ConnectError("")) == "org.apache.kafka.connect.errors.ConnectException"
    assert java_exception(ConfigError("")) == "org.apache.kafka.common.config.ConfigException"
    assert java_exception(ValueError("")) == "builtins.ValueError"


def test_without_tolerance_the_first_failure_is_one_too_many() -> None:
    failure = Failure(Stage.VALUE_CONVERTER, "X", DataError("No number."))
    with pytest.raises(ConnectError) as refused:
        _errors().tolerate(failure, "t-0 at offset 5")
    assert refused.value.message == (
        "Tolerance exceeded in error handler: No number (VALUE_CONVERTER of t-0 at offset 5)."
    )
    _errors(tolerance="all").tolerate(failure, "t-0 at offset 5")


def test_a_wrong_tolerance_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"errors\.tolerance"):
        _errors(tolerance="some")


def test_failures_are_logged_if_that_is_asked_for(caplog: pytest.LogCaptureFixture) -> None:
    failure = Failure(Stage.TRANSFORMATION, "Cast", DataError("No number."))
    with caplog.at_level(logging.ERROR):
        _errors(tolerance="all").report(failure, None, "t-0 at offset 5")
        assert not caplog.records
        _errors(log_enable="true").report(failure, None, "t-0 at offset 5")
    assert "Executing stage 'TRANSFORMATION' with class 'Cast'" in caplog.text
    assert "No number." in caplog.text


def test_a_source_passes_over_what_cannot_be_converted_if_that_is_tolerated() -> None:
    worker = WorkerConfig.from_properties(
        {
            "group.id": "g",
            "key.converter": _STRING,
            "value.converter": _BYTES,
            **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
        }
    )
    good, bad = SourceRecord("t", value=b"good"), SourceRecord("t", value=5, value_schema=INT32)
    tolerant = SourceConversion({}, worker, _errors(tolerance="all"))
    converted = [tolerant.convert(each) for each in (good, bad)]
    assert [None if each is None else each.value for each in converted] == [b"good", None]
    strict = SourceConversion({}, worker, _errors())
    with pytest.raises(ConnectError, match="VALUE_CONVERTER"):
        strict.convert(bad)
