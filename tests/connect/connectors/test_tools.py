"""Kafka's test connectors, with the output and failures that Connect's tests rely on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.connect import ConnectError, Struct
from ottla.connect.connectors.tools.mock import MockSinkConnector, MockSourceConnector
from ottla.connect.connectors.tools.verifiable import (
    VerifiableSinkConnector,
    VerifiableSourceConnector,
)
from ottla.testing.connect import SinkHarness, SourceHarness


def _printed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_the_source_counts_on_after_a_crash_and_prints_what_it_sends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    config = {"name": "v", "topic": "t", "throughput": "-1"}
    with SourceHarness(VerifiableSourceConnector, config) as source:
        source.poll()
        source.crash()
        records = list(source.run(1000))
    assert [(record.key, record.value) for record in records] == [(0, n) for n in range(1000)]
    assert source.offsets == [({"id": 0}, {"seqno": 999})]
    lines = _printed(capsys)
    assert lines[0] == {"name": "v", "task": 0, "topic": "t", "time_ms": lines[0]["time_ms"], "seqno": 0}
    assert [line["seqno"] for line in lines if line.get("committed")] == list(range(1000))


def test_the_source_keeps_to_its_throughput(capsys: pytest.CaptureFixture[str]) -> None:
    config = {"name": "v", "topic": "t", "throughput": "500", "complete.record.data": "true"}
    with SourceHarness(VerifiableSourceConnector, config) as source:
        record = source.run(10)[9]
    assert isinstance(record.value, Struct)
    assert record.value.get("seqno") == 9
    assert record.value.get("name") == "v"


def test_the_sink_prints_what_it_gets_and_what_is_flushed(capsys: pytest.CaptureFixture[str]) -> None:
    with SinkHarness(VerifiableSinkConnector, {"name": "s"}) as sink:
        sink.send("t", 7, key=3)
        sink.commit()
    first, second = _printed(capsys)
    assert first == {
        "name": "s",
        "task": 3,
        "sinkTask": 0,
        "topic": "t",
        "time_ms": first["time_ms"],
        "seqno": 7,
        "offset": 0,
    }
    assert second == {**first, "time_ms": second["time_ms"], "flushed": True}


def test_mocks_do_nothing_until_they_fail() -> None:
    with SourceHarness(MockSourceConnector, {}) as source:
        assert source.run() == []
    failing = {"mock_mode": "task-failure", "delay_ms": "0"}
    with (
        SourceHarness(MockSourceConnector, failing) as source,
        pytest.raises(ConnectError, match="task-failure"),
    ):
        source.poll()
    with SinkHarness(MockSinkConnector, failing) as sink:
        sink.send("t", 1)
        with pytest.raises(ConnectError, match="task-failure"):
            sink.commit()


def test_a_throughput_that_is_no_number_is_named() -> None:
    config = {"topic": "t", "throughput": "fast"}
    with pytest.raises(ConnectError, match="throughput has to be a number"):
        SourceHarness(VerifiableSourceConnector, config).start()
