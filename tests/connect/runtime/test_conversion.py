"""Records converted in columns and one by one give the same bytes, failures and dead letters."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from ottla.connect.config.worker_config import WorkerConfig
from ottla.connect.data.record import Header, SinkRecord, SourceRecord
from ottla.connect.data.schema import INT32, OPTIONAL_STRING, STRING, Schema
from ottla.connect.errors import ConnectError, DataError, RetriableError
from ottla.connect.runtime.failures.error_handling import ErrorHandling
from ottla.connect.runtime.failures.stages import Failure
from ottla.connect.runtime.records.conversion import SinkConversion, SourceConversion
from ottla.connect.runtime.records.topic_records import ConvertedRecord, RawRecord, RawRecords
from tests.connect.oracle.test_random import Maker

_HERE = "tests.connect.runtime.test_conversion"
_KAFKA = "org.apache.kafka.connect"
_JSON = {"value.converter": f"{_KAFKA}.json.JsonConverter", "value.converter.schemas.enable": "false"}
_HOIST = {
    "transforms": "hoist",
    "transforms.hoist.type": "HoistField$Value",
    "transforms.hoist.field": "line",
}
_CAST = {"transforms": "cast", "transforms.cast.type": "Cast$Value", "transforms.cast.spec": "int32"}
_WORKER = WorkerConfig.from_properties(
    {
        "group.id": "g",
        "key.converter": f"{_KAFKA}.storage.StringConverter",
        "value.converter": f"{_KAFKA}.storage.StringConverter",
        **{f"{kind}.storage.topic": kind for kind in ("config", "offset", "status")},
    }
)


def _errors(config: dict[str, str]) -> ErrorHandling:
    return ErrorHandling(config, "c-0", threading.Event())


def _source(config: dict[str, str]) -> SourceConversion:
    return SourceConversion(config, _WORKER, _errors(config))


def _lines(*values: Any, schema: Schema | None = STRING) -> list[SourceRecord]:
    return [
        SourceRecord("t", value, schema, source_partition={"file": "f"}, source_offset={"n": n})
        for n, value in enumerate(values)
    ]


def _by_topic(converted: Sequence[ConvertedRecord]) -> dict[str, list[ConvertedRecord]]:
    found: dict[str, list[ConvertedRecord]] = {}
    for each in converted:
        found.setdefault(each.topic, []).append(each)
    return found


def _together(conversion: SourceConversion, records: list[SourceRecord]) -> dict[str, list[ConvertedRecord]]:
    return {
        topic: [
            ConvertedRecord(topic, *each)
            for each in zip(
                its.partitions, its.keys, its.values, its.headers, its.timestamps, strict=True
            )
        ]
        for topic, its in conversion.convert_all(records).items()
    }  # fmt: skip


def _one_by_one(conversion: SourceConversion, records: list[SourceRecord]) -> list[ConvertedRecord]:
    return [found for each in records if (found := conversion.convert(each)) is not None]


def test_mixed_records_are_converted_in_their_order_whether_together_or_not() -> None:
    maker = Maker(5)
    records: list[SourceRecord] = []
    for _ in range(60):
        schema = maker.schema()
        about: dict[str, Any] = {
            "topic": maker.random.choice("ab"),
            "key_schema": maker.random.choice((None, STRING)),
            "partition": maker.random.choice((None, None, 1)),
            "timestamp": maker.random.choice((None, 1709211959123)),
            "headers": maker.random.choice(([], [], [], [Header("h", "v", STRING)])),
        }
        for _ in range(maker.random.randint(1, 9)):
            key = maker.random.choice((None, "k"))
            records.append(SourceRecord(value=maker.value(schema), value_schema=schema, key=key, **about))
    for config in ({}, _JSON, _HOIST, {**_JSON, **_HOIST}):
        config = {**config, "errors.tolerance": "all"}
        expected = _one_by_one(_source(config), records)
        assert len(expected) > 100
        assert _together(_source(config), records) == _by_topic(expected)


@pytest.mark.parametrize("tolerance", ["all", "none"])
def test_a_bad_record_among_good_ones_fails_as_if_it_were_alone(
    tolerance: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {**_CAST, "errors.tolerance": tolerance, "errors.log.enable": "true"}
    records = _lines("1", "2", "x", "4", "y", "6")
    if tolerance == "none":
        with pytest.raises(ConnectError) as refused:
            _source(config).convert_all(records)
        assert refused.value.message == (
            "Tolerance exceeded in error handler: Value (x) was out of range for requested data type "
            "(TRANSFORMATION of {'file': 'f'} at offset {'n': 2})."
        )
        return
    found = _together(_source(config), records)["t"]
    assert [each.value for each in found] == [b"1", b"2", b"4", b"6"]
    assert [each.getMessage().count("at offset {'n': 2}") for each in caplog.records] == [1, 0]
    assert "at offset {'n': 4}" in caplog.records[1].getMessage()


def test_where_an_offset_is_known_for_the_last_record_only_the_others_are_asked_for() -> None:
    records = _lines("1", "x", "3", "4")
    conversion = _source({**_CAST, "errors.tolerance": "all"})
    from ottla.connect.data.columns import runs

    ((_, columns),) = runs(records)
    assert columns is not None
    found = conversion.convert_columns(columns, lambda: records)
    assert found["t"].values == [b"1", b"3", b"4"]


def test_of_many_records_a_late_one_that_fails_leaves_nothing_twice() -> None:
    records = _lines(*("x" if n == 900 else str(n) for n in range(1000)))
    found = _source({**_CAST, "errors.tolerance": "all"}).convert_all(records)
    assert found["t"].values == [b"%d" % n for n in range(1000) if n != 900]
    good = _source(_CAST).convert_all(records[:900])
    assert good["t"].values == [b"%d" % n for n in range(900)]


class Counting:
    calls: int = 0


def counts(record: SourceRecord) -> SourceRecord:
    Counting.calls += 1
    if record.value == "bad":
        raise ValueError("Bad.")
    return record


def test_a_function_sees_each_record_once_also_if_another_fails() -> None:
    Counting.calls = 0
    config = {
        "transforms": "f",
        "transforms.f.type": f"{_HERE}:counts",
        "errors.tolerance": "all",
    }
    found = _source(config).convert_all(_lines("a", "b", "bad", "c", "d"))
    assert found["t"].values == [b"a", b"b", b"c", b"d"]
    assert Counting.calls == 5


def test_what_fails_for_a_while_is_tried_again() -> None:
    conversion = _source({"errors.retry.timeout": "60000", "errors.retry.delay.max.ms": "1"})
    before, failures = conversion._value.from_connect, iter((True, True, True))

    def busy(topic: str, schema: Schema | None, value: Any) -> bytes | None:
        if value == "b" and next(failures, False):
            raise RetriableError("Not now.")
        return before(topic, schema, value)

    conversion._value.from_connect = busy  # type: ignore[method-assign]
    conversion._value.all_from_connect = lambda *given: [busy(*given[:2], each) for each in given[2]]  # type: ignore[method-assign]
    assert conversion.convert_all(_lines("a", "b", "c", "d"))["t"].values == [b"a", b"b", b"c", b"d"]


# Sinks


def _raw(*values: bytes | None, keys: Sequence[bytes | None] = (), **more: Any) -> RawRecords:
    count = len(values)
    return RawRecords(
        "t", 1, [10 + 2 * n for n in range(count)], list(keys) or [None] * count, list(values),
        more.get("headers"), more.get("timestamps", [5] * count), [0] * count,
    )  # fmt: skip


class Sink:
    def __init__(self, config: dict[str, str]) -> None:
        self.failed: list[tuple[str, RawRecord]] = []
        self.conversion = SinkConversion(config, _WORKER, _errors(config), self._failed)

    def _failed(self, failure: Failure, raw: RawRecord) -> None:
        self.failed.append((failure.stage, raw))

    def one_by_one(self, raw: RawRecords) -> list[SinkRecord]:
        return self.conversion.convert_each(raw)


@pytest.mark.parametrize("config", [{}, _JSON, _HOIST, {**_JSON, **_HOIST}, _CAST])
def test_a_sink_gets_the_same_records_together(config: dict[str, str]) -> None:
    raw = _raw(b"1", b"2", b"3", keys=[b"k", None, b"\xff"], timestamps=[5, -1, 6])
    sink = Sink(config)
    columns = sink.conversion.convert_columns(raw)
    assert columns is not None
    assert columns.records() == sink.one_by_one(raw)
    assert [each.timestamp for each in columns.records()] == [5, None, 6]
    assert [each.offset for each in columns.records()] == [10, 12, 14]


def test_records_with_headers_or_that_fail_go_one_by_one() -> None:
    with_headers = _raw(b"1", b"2", headers=[[], [("h", b"v")]])
    assert Sink({}).conversion.convert_columns(with_headers) is None
    assert [each.headers for each in Sink({}).one_by_one(with_headers)][1][0].key == "h"
    sink = Sink({**_JSON, "errors.tolerance": "all"})
    raw = _raw(b"1", b"{", b"3")
    assert sink.conversion.convert_columns(raw) is None
    assert not sink.failed
    assert [(each.offset, each.value) for each in sink.one_by_one(raw)] == [(10, 1), (14, 3)]
    ((stage, letter),) = sink.failed
    assert (stage, letter.offset, letter.value, letter.where) == (
        "VALUE_CONVERTER",
        12,
        b"{",
        "t-1 at offset 12",
    )


def test_tombstones_and_records_without_keys_have_the_converters_schema() -> None:
    columns = Sink({}).conversion.convert_columns(_raw(b"x", None))
    assert columns is not None
    assert (columns.value_schema, columns.values) == (OPTIONAL_STRING, ["x", None])
    assert (columns.key_schema, columns.keys) == (OPTIONAL_STRING, [None, None])


def test_raw_records_are_found_by_offset_and_divided() -> None:
    raw = _raw(b"a", b"b", b"c", headers=[[], [], [("h", None)]])
    found = raw.at(12)
    assert found is not None
    assert (found.value, found.headers) == (b"b", [])
    assert (raw.at(11), raw.at(99)) == (None, None)
    first, second = raw.parts(2)
    assert (first.offsets, first.values, first.headers) == ([10, 12], [b"a", b"b"], None)
    assert (second.offsets, second.values, second.headers) == ([14], [b"c"], [[("h", None)]])
    assert [*first, *second] == list(raw)
    assert raw.parts(3) == [raw]


def test_data_that_does_not_fit_is_a_data_error() -> None:
    conversion = _source({"value.converter": f"{_KAFKA}.converters.ByteArrayConverter"})
    with pytest.raises(ConnectError) as refused:
        conversion.convert_all(_lines(1, 2, 3, 4, schema=INT32))
    assert isinstance(refused.value.__cause__, DataError)
