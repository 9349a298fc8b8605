"""FileStream reads lines and positions like Kafka's connector of that name."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.connect import ConnectError, SinkRecord
from ottla.connect.connectors.file_stream import (
    FileStreamSinkConnector,
    FileStreamSinkTask,
    FileStreamSourceConnector,
    FileStreamSourceTask,
)
from ottla.connect.data.columns import SinkColumns
from ottla.testing.connect import SourceHarness


class _Context:
    def __init__(self, position: Any = None) -> None:
        self.position = position

    def offset(self, partition: Any) -> Any:
        return None if self.position is None else {"position": self.position}


def _task(path: Path, position: Any = None, **settings: str) -> FileStreamSourceTask:
    task = FileStreamSourceTask()
    config = {
        "file": str(path),
        "topic": "t",
        **{name.replace("_", "."): each for name, each in settings.items()},
    }
    task.start(config, _Context(position))
    return task


def test_lines_end_with_a_line_feed_a_carriage_return_or_both(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"a\nb\r\nc\rd\n\ne\r")
    task = _task(path)
    records = task.poll()
    assert [each.value for each in records] == ["a", "b", "c", "d", ""]
    assert [each.source_offset["position"] for each in records] == [2, 5, 7, 9, 10]
    assert records[0].source_partition == {"filename": str(path)}
    assert task.poll() == ()  # the byte after the carriage return decides
    with path.open("ab") as file:
        file.write(b"\nf")
    assert [(each.value, each.source_offset["position"]) for each in task.poll()] == [("e", 13)]
    task.stop()


@pytest.mark.parametrize(
    "content",
    [
        b"a\nb\n\xc3\xa4c\nrest",
        b"a\r\nb\rc\nrest",
        b"\xff\xfe bad\nfine\n",
        b"",
        b"\n\n",
        b"rest",
        b"\xe2\x82\n\xf0\x9f\n\xc3\n\xa4\n\xed\xa0\x80\n\xf4\x90\x80\x80\nz\x0b\x0c\x1c\xc2\x85\xe2\x80\xa8\n",
    ],
)
def test_columns_are_the_same_lines(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    one, other = _task(path), _task(path)
    records, found = one.poll(), other.poll_columns()
    assert [each.value for each in records] == ([] if found is None else found.columns.values)
    if found is not None:
        assert found.offsets == [(records[-1].source_partition, records[-1].source_offset)]
        about = [
            (each.value, each.value_schema, each.source_partition, each.source_offset) for each in records
        ]
        again = [
            (each.value, each.value_schema, each.source_partition, each.source_offset)
            for each in found.records()
        ]
        assert again == about
        assert found.columns.timestamps == [each.timestamp for each in found.records()]
    one.stop()
    other.stop()


@pytest.mark.parametrize("values", [["a", "b"], ["a", None, {"n": [1.5, True]}], [""], []])
def test_columns_become_the_same_lines(tmp_path: Path, values: list[Any]) -> None:
    columns = SinkColumns(
        topic="t",
        partition=0,
        value_schema=None,
        values=values,
        key_schema=None,
        keys=[None] * len(values),
        timestamps=[None] * len(values),
        offsets=list(range(len(values))),
        timestamp_types=[0] * len(values),
        original_topic="t",
        original_partition=0,
    )
    for name in ("one", "other"):
        task = FileStreamSinkTask()
        task.start({"file": str(tmp_path / name)}, None)  # type: ignore[arg-type]
        if name == "one":
            task.put([*columns.records(), *columns.records()])
        else:
            task.put_columns([columns, columns])
        task.stop()
    written = (tmp_path / "one").read_text()
    assert (tmp_path / "other").read_text() == written
    assert written.count("\n") == 2 * len(values)


def test_no_more_than_a_batch_at_once(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("1\n2\n3\n4\n5\n")
    task = _task(path, batch_size="2")
    assert [[each.value for each in task.poll()] for _ in range(4)] == [["1", "2"], ["3", "4"], ["5"], []]
    task.stop()


def test_a_file_that_is_not_there_yet_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    task = _task(path, position=2)
    assert task.poll() == ()
    path.write_text("a\nb\n")
    assert [each.value for each in task.poll()] == ["b"]
    task.stop()


def test_a_position_must_be_a_number(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("")
    with pytest.raises(ConnectError, match="incorrect type"):
        _task(path, position="5").poll()


def test_lines_are_read_exactly_once_after_any_crash(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("".join(f"{number}\n" for number in range(50)))
    config = {"file": str(path), "topic": "t", "batch.size": "7"}
    with SourceHarness(FileStreamSourceConnector, config) as source:
        assert [each.value for each in source.run()] == [str(number) for number in range(50)]


@pytest.mark.parametrize(
    ("partition", "offset", "sentence"),
    [
        ({"filename": "f"}, {"place": 1}, "contain the key 'position'"),
        ({"filename": "f"}, {"position": "1"}, "expected to be a Long value"),
        ({"filename": "f"}, {"position": -1}, "non-negative value"),
        ({"name": "f"}, {"position": 1}, "contain the key 'filename'"),
    ],
)
def test_offsets_that_make_no_sense_are_refused(partition: Any, offset: Any, sentence: str) -> None:
    connector = FileStreamSourceConnector()
    with pytest.raises(ConnectError, match=sentence):
        connector.check_offsets({"file": "f"}, [(partition, offset)])
    connector.check_offsets({"file": "f"}, [({"anything": 1}, None), ({"filename": "f"}, {"position": 0})])
    with pytest.raises(ConnectError, match="stdin"):
        connector.check_offsets({}, [])


def test_without_a_file_the_standard_streams_are_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Runs in the worker's own process, because Spark's processes have no standard streams."""
    source, sink = FileStreamSourceConnector(), FileStreamSinkConnector()
    source.start({"topic": "t"})
    sink.start({"topics": "t"})
    assert source.runs_in_driver()
    assert sink.runs_in_driver()

    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        task = FileStreamSourceTask()
        task.start({"topic": "t"}, _Context())
        assert task.poll() == ()  # without blocking
        os.write(writing, b"typed\n")
        (record,) = task.poll()
        assert (record.value, record.source_offset) == ("typed", {"position": None})
        os.close(writing)
        assert task.poll() == ()
        task.stop()

    printing = FileStreamSinkTask()
    printing.start({}, None)  # type: ignore[arg-type]
    printing.put([SinkRecord("t", value="printed")])
    printing.flush({})
    printing.stop()
    assert capfd.readouterr().out == "printed\n"
