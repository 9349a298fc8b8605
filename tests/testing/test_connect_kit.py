"""The connector test kit finds faulty connectors, and accepts correct ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConfigDef, ConfigError, ConfigType, SinkRecord
from ottla.connect.simple import SimpleSink, SimpleSource
from ottla.testing.connect import NotExactlyOnce, SinkHarness, SourceHarness, check_sink, check_source


class Lines(SimpleSource):
    config_def = ConfigDef().define("path", ConfigType.STRING)

    def read(self, offset: int | None) -> Iterator[tuple[Any, Any]]:
        with open(self.settings["path"]) as lines:
            for number, line in enumerate(lines, start=1):
                if number > (offset or 0):
                    yield line.rstrip("\n"), number


class Repeating(Lines):
    """Starts one line too early."""

    def read(self, offset: int | None) -> Iterator[tuple[Any, Any]]:
        return super().read(max((offset or 0) - 1, 0) if self.is_new else offset)

    is_new = True

    def start(self, config: Mapping[str, str]) -> None:
        super().start(config)
        self.is_new = True

    def committed(self) -> None:
        self.is_new = False


class Forgetting(Lines):
    """Counts the lines read instead of the lines committed."""

    seen = 0

    def read(self, offset: int | None) -> Iterator[tuple[Any, Any]]:
        for value, number in super().read(Forgetting.seen):
            Forgetting.seen = number
            yield value, number


class ByOffset(SimpleSink):
    stored: dict[tuple[str, int, int], Any] = {}

    def write(self, records: Any) -> None:
        self.stored.update({(each.topic, each.partition, each.offset): each.value for each in records})


class Appending(SimpleSink):
    stored: list[Any] = []

    def write(self, records: Any) -> None:
        self.stored.extend(each.value for each in records)


@pytest.fixture
def config(tmp_path: Path) -> Callable[[], dict[str, str]]:
    path = tmp_path / "lines"
    path.write_text("".join(f"line {number}\n" for number in range(50)))

    def fresh() -> dict[str, str]:
        Forgetting.seen = 0
        return {"path": str(path), "topic": "lines", "batch.size": "7"}

    return fresh


def test_a_source_that_keeps_to_its_offsets_passes(config: Callable[[], dict[str, str]]) -> None:
    records = check_source(Lines, config)
    assert [record.value for record in records] == [f"line {number}" for number in range(50)]
    assert records[-1].source_offset == {"offset": 50}


@pytest.mark.parametrize("connector", [Repeating, Forgetting])
def test_a_source_that_repeats_or_loses_is_found_out(
    connector: type[SimpleSource], config: Callable[[], dict[str, str]]
) -> None:
    with pytest.raises(NotExactlyOnce, match="crash"):
        check_source(connector, config)


def test_an_offset_that_cannot_be_stored_is_refused(config: Callable[[], dict[str, str]]) -> None:
    class Wrong(Lines):
        def read(self, offset: Any) -> Iterator[tuple[Any, Any]]:
            yield "x", {"position": [1]}

    with (
        SourceHarness(Wrong, config()) as source,
        pytest.raises(NotExactlyOnce, match="'position' is a list"),
    ):
        source.poll()


def test_a_source_with_parts_runs_several_tasks() -> None:
    class Parts(SimpleSource):
        def partitions(self) -> list[str]:
            return ["a", "b", "c"]

        def read_partition(self, partition: str, offset: int | None) -> Iterator[tuple[Any, Any]]:
            for number in range(offset or 0, 3):
                yield f"{partition}{number}", number + 1

    with SourceHarness(Parts, {"topic": "t"}, max_tasks=2) as source:
        source.poll()
        source.crash()
        records = source.run()
        assert len(source.connector.task_configs(2)) == 2
    assert sorted(record.value for record in records) == [f"{part}{n}" for part in "abc" for n in range(3)]
    assert ({"source": "b"}, {"offset": 3}) in source.offsets


def test_a_config_is_validated_by_the_definition() -> None:
    with pytest.raises(ConfigError, match='Missing required configuration "path"'):
        SourceHarness(Lines, {"topic": "t"})
    with pytest.raises(ConfigError, match="has to be text"):
        SourceHarness(Lines, {"path": "p", "topic": "t", "batch.size": 7})  # type: ignore[dict-item]


def _send(sink: SinkHarness) -> None:
    for number in range(20):
        sink.send("orders", number, partition=number % 2)


def test_a_sink_that_recognizes_offsets_passes() -> None:
    def fresh() -> dict[str, str]:
        ByOffset.stored.clear()
        return {}

    stored = check_sink(ByOffset, fresh, _send, lambda: dict(ByOffset.stored))
    assert sorted(stored.values()) == list(range(20))  # type: ignore[attr-defined]


def test_a_sink_that_only_appends_is_found_out() -> None:
    def fresh() -> dict[str, str]:
        Appending.stored.clear()
        return {}

    with pytest.raises(NotExactlyOnce, match="crash"):
        check_sink(Appending, fresh, _send, lambda: sorted(Appending.stored))


def test_what_a_sink_cannot_store_is_reported() -> None:
    class Picky(SimpleSink):
        def write(self, records: Any) -> None: ...

    with SinkHarness(Picky, {}) as sink:
        record = sink.send("t", "bad")
        assert isinstance(record, SinkRecord)
        sink.commit()
        assert sink.committed == {("t", 0): 1}
        assert sink.reported == []
