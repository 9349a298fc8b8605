"""Files in a directory: each record once, and each file is moved after all its records are in the topic."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.connect import ConfigError, ConnectError, SourceRecord, Struct
from ottla.connect.connectors.spooldir.connector import (
    SpoolDirCsvSourceConnector,
    SpoolDirJsonSourceConnector,
    SpoolDirLineDelimitedSourceConnector,
    SpoolDirSchemaLessJsonSourceConnector,
)
from ottla.testing.connect import SourceHarness, check_source

PEOPLE = json.dumps(
    {
        "name": "com.example.Person",
        "type": "STRUCT",
        "isOptional": False,
        "fieldSchemas": {
            "id": {"type": "INT32", "isOptional": False},
            "name": {"type": "STRING", "isOptional": True},
            "height": {"type": "FLOAT64", "isOptional": True},
            "born": {"type": "INT64", "name": "org.apache.kafka.connect.data.Timestamp", "isOptional": True},
        },
    }
)


@pytest.fixture
def spool(tmp_path: Path) -> Callable[..., dict[str, str]]:
    """Create new directories with the given files."""
    numbers = itertools.count()

    def make(files: dict[str, str | bytes], **settings: str) -> dict[str, str]:
        base = tmp_path / f"spool-{next(numbers)}"
        for each in ("in", "done", "bad"):
            (base / each).mkdir(parents=True)
        for name, content in files.items():
            data = content.encode() if isinstance(content, str) else content
            (base / "in" / name).write_bytes(data)
        return {
            "topic": "t",
            "input.path": str(base / "in"),
            "finished.path": str(base / "done"),
            "error.path": str(base / "bad"),
            "input.file.pattern": r".*",
            "empty.poll.wait.ms": "1",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }

    return make


Spool = Callable[..., dict[str, str]]


def names(config: dict[str, str], which: str) -> list[str]:
    return sorted(os.listdir(config[which]))


def rows(records: list[SourceRecord]) -> list[dict[str, object]]:
    assert all(isinstance(record.value, Struct) for record in records)
    return [
        {field.name: record.value.get(field.name) for field in record.value.schema.fields}
        for record in records
    ]


def test_lines_come_exactly_once_and_files_are_moved_when_all_is_committed(spool: Spool) -> None:
    files = {f"{name}.log": "".join(f"{name} {n}\n" for n in range(25)) for name in "abc"}
    configs: list[dict[str, str]] = []

    def fresh() -> dict[str, str]:
        configs.append(spool(files, batch_size="10"))
        return configs[-1]

    records = check_source(SpoolDirLineDelimitedSourceConnector, fresh)
    assert [record.value for record in records] == [f"{name} {n}" for name in "abc" for n in range(25)]
    for config in configs:
        assert names(config, "finished.path") == ["a.log", "b.log", "c.log"]
        assert names(config, "input.path") == []


def test_a_file_stays_until_its_last_record_is_committed(spool: Spool) -> None:
    config = spool({"a.log": "1\n2\n3\n"})
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config) as source:
        assert len(source.poll()) == 3
        source.poll()
        assert names(config, "input.path") == ["a.log"]
        source.crash()
        assert len(source.poll()) == 3
        source.commit()
        assert names(config, "input.path") == []


def test_another_file_of_the_same_name_is_read_from_its_beginning(spool: Spool) -> None:
    config = spool({"a.log": "1\n2\n"})
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config) as source:
        source.run()
        (Path(config["input.path"]) / "a.log").write_text("3\n4\n5\n")
        source.restart()
        assert [record.value for record in source.run()] == ["1", "2", "3", "4", "5"]
    assert names(config, "finished.path") == ["a.log", "a.log.1"]


@pytest.mark.parametrize(
    ("policy", "left", "done"),
    [("NONE", ["a", "b"], []), ("DELETE", [], []), ("MOVEBYDATE", [], ["2020-09-13"])],
)
def test_cleanup_policies(spool: Spool, policy: str, left: list[str], done: list[str]) -> None:
    config = spool({"a": "1\n", "b": ""}, cleanup_policy=policy)
    for name in "ab":
        os.utime(Path(config["input.path"]) / name, (1_600_000_000, 1_600_000_000))
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config) as source:
        source.run()
        source.restart()
        assert [record.value for record in source.run()] == ["1"]
    assert names(config, "input.path") == left
    assert names(config, "finished.path") == done


def test_only_files_that_match_and_are_old_enough_are_read_in_order(spool: Spool) -> None:
    config = spool(
        {"1.csv": "small", "2.csv": "larger one", "x.tmp": "no"},
        input_file_pattern=r"\d+\.csv",
        files_sort_attributes="LengthDesc",
    )
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config) as source:
        assert [record.value for record in source.run()] == ["larger one", "small"]
        assert names(config, "input.path") == ["x.tmp"]
    young = spool({"1": "x"}, file_minimum_age_ms="3600000")
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, young) as source:
        assert source.run() == []


def test_tasks_share_the_files(spool: Spool) -> None:
    config = spool({f"file-{n}": f"{n}\n" for n in range(20)})
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config, max_tasks=3) as source:
        assert sorted(int(record.value) for record in source.run()) == list(range(20))


def test_headers_say_where_a_record_was(spool: Spool) -> None:
    config = spool({"a.log": "x\ny\n"}, timestamp_mode="FILE_TIME")
    path = Path(config["input.path"]) / "a.log"
    os.utime(path, (1_600_000_000, 1_600_000_000))
    with SourceHarness(SpoolDirLineDelimitedSourceConnector, config) as source:
        record = source.run()[1]
    headers = {header.key: header.value for header in record.headers}
    assert headers["file.name"] == "a.log"
    assert headers["file.path"] == str(path)
    assert headers["file.offset"] == 2
    assert headers["file.last.modified"] == dt.datetime(2020, 9, 13, 12, 26, 40, tzinfo=dt.UTC)
    assert record.timestamp == 1_600_000_000_000


def test_csv_with_a_header_and_a_schema(spool: Spool) -> None:
    content = 'Name,ID,height,born\n"Ada, L.",1,1.6,1815-12-10 00:00:00\n"Say ""hi""",2,,\n'
    config = spool({"p.csv": content}, value_schema=PEOPLE, csv_first_row_as_header="true")
    records = check_source(SpoolDirCsvSourceConnector, lambda: {**config, **spool({"p.csv": content})})
    assert rows(records) == [
        {"id": 1, "name": "Ada, L.", "height": 1.6, "born": dt.datetime(1815, 12, 10, tzinfo=dt.UTC)},
        {"id": 2, "name": 'Say "hi"', "height": None, "born": None},
    ]
    assert records[0].value_schema is not None
    assert records[0].value_schema.name == "com.example.Person"


def test_csv_with_generated_schemas(spool: Spool) -> None:
    config = spool(
        {"a.tsv.gz": gzip.compress(b"# made yesterday\n1\tx\n2\ty\n")},
        csv_separator_char="9",
        csv_skip_lines="1",
        schema_generation_enabled="true",
        schema_generation_key_fields="column01",
    )
    with SourceHarness(SpoolDirCsvSourceConnector, config) as source:
        records = source.run()
    assert rows(records) == [{"column01": "1", "column02": "x"}, {"column01": "2", "column02": "y"}]
    assert records[0].key.get("column01") == "1"
    assert records[0].key_schema is not None
    assert records[0].key_schema.name == "com.github.jcustenborder.kafka.connect.model.Key"


def test_a_bad_row_halts_the_task_after_what_was_before_it(spool: Spool) -> None:
    config = spool(
        {"a.csv": "1,x,2,\nseven,x,2,\n3,x,2,\n", "b.csv": "4,x,2,\n"}, value_schema=PEOPLE, batch_size="10"
    )
    with SourceHarness(SpoolDirCsvSourceConnector, config) as source:
        assert len(source.poll()) == 1
        assert source.poll() == []
        source.commit()
        with pytest.raises(
            ConnectError, match=r"a.csv, line 2: 'seven' in the field 'id' is no INT32"
        ) as error:
            source.poll()
        assert "The file was moved to" in error.value.message
        source.restart()
        assert [row["id"] for row in rows(source.run())] == [1, 4]
    assert names(config, "error.path") == ["a.csv"]
    assert names(config, "finished.path") == ["b.csv"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("1,x\n", "there are 2 fields, but 4 columns"),
        (",x,1,\n", "'id' is empty, but not optional"),
        ("1,x,1,yesterday\n", "'yesterday' in the field 'born' is no Timestamp"),
        ("99999999999,x,1,\n", "is no INT32: it is too large"),
        (b"1,\xff,1,\n", "is not in the character set utf-8"),
    ],
)
def test_what_is_wrong_with_a_row_is_said(spool: Spool, content: str | bytes, why: str) -> None:
    config = spool({"a.csv": content}, value_schema=PEOPLE)
    with SourceHarness(SpoolDirCsvSourceConnector, config) as source, pytest.raises(ConnectError, match=why):
        source.poll()


def test_without_halt_on_error_the_next_file_follows(spool: Spool) -> None:
    config = spool({"a.csv": "x,x\n", "b.csv": "2,b,1,\n"}, value_schema=PEOPLE, halt_on_error="false")
    with SourceHarness(SpoolDirCsvSourceConnector, config) as source:
        assert [row["id"] for row in rows(source.run())] == [2]
    assert names(config, "error.path") == ["a.csv"]


@pytest.mark.parametrize(
    "content", ['{"a":1}\n{"a":2}{"a":3}', '[{"a":1},{"a":2},\n {"a":3}]', '{"a":\n1} {"a":2}\n\n{"a":3}\n']
)
def test_json_without_schemas_is_text(spool: Spool, content: str) -> None:
    records = check_source(SpoolDirSchemaLessJsonSourceConnector, lambda: spool({"a.json": content}))
    assert [record.value for record in records] == ['{"a":1}', '{"a":2}', '{"a":3}']


def test_large_json_files_are_read_in_pieces(spool: Spool) -> None:
    content = "\n".join(json.dumps({"n": n, "pad": "x" * 1000}) for n in range(3000))
    with SourceHarness(SpoolDirSchemaLessJsonSourceConnector, spool({"a.json": content})) as source:
        assert [json.loads(record.value)["n"] for record in source.run()] == list(range(3000))


def test_json_with_schemas(spool: Spool) -> None:
    given = spool({"a.json": '{"id": 1, "name": "Ada"} {"id": 2, "height": 2}'}, value_schema=PEOPLE)
    with SourceHarness(SpoolDirJsonSourceConnector, given) as source:
        assert [(row["id"], row["name"], row["height"]) for row in rows(source.run())] == [
            (1, "Ada", None),
            (2, None, 2.0),
        ]
    made = spool({"a.json": '{"n": 1, "x": 0.5, "ok": true, "s": "t"}'}, schema_generation_enabled="true")
    with SourceHarness(SpoolDirJsonSourceConnector, made) as source:
        assert rows(source.run()) == [{"n": 1, "x": 0.5, "ok": True, "s": "t"}]


def test_bad_json_is_said(spool: Spool) -> None:
    config = spool({"a.json": '{"id": 1} {"id": '}, value_schema=PEOPLE)
    with SourceHarness(SpoolDirJsonSourceConnector, config) as source:
        source.poll()
        source.commit()
        with pytest.raises(ConnectError, match=r"a.json, record 2 is not JSON"):
            source.poll()


def test_bad_settings_are_named(spool: Spool, tmp_path: Path) -> None:
    good = spool({}, value_schema=PEOPLE)
    for change, why in [
        ({"input.path": str(tmp_path / "no")}, "Directory for 'input.path' .* does not exist"),
        ({"finished.path": ""}, "Directory for 'finished.path' '' does not exist"),
        ({"input.file.pattern": "("}, "Not a regular expression"),
        ({"value.schema": ""}, "'value.schema' must be set"),
        ({"value.schema": "{"}, "value.schema is not a schema"),
        ({"cleanup.policy": "BURN"}, "String must be one of: NONE, DELETE, MOVE, MOVEBYDATE"),
        ({"csv.file.charset": "klingon"}, "Not a character set"),
        ({"parser.timestamp.date.formats": "yyyy-QQ"}, "'QQ' in 'yyyy-QQ' is not known here"),
        ({"timestamp.mode": "FIELD"}, "timestamp.field has to name the field"),
    ]:
        with pytest.raises(ConfigError, match=why):
            SourceHarness(SpoolDirCsvSourceConnector, {**good, **change})


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_named(spool: Spool) -> None:
    config = spool({})
    os.chmod(config["error.path"], 0o500)
    with pytest.raises(ConfigError, match="is not writable"):
        SourceHarness(SpoolDirLineDelimitedSourceConnector, config)
