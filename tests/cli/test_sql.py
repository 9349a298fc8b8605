"""`ottla sql` as a process. Tests that need Spark carry its mark."""

from __future__ import annotations

import json
import os
import pty
import select
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")


@pytest.fixture
def stream(ottla, unique, tmp_path, monkeypatch):
    """A stream over a topic with two rows; the command keeps its state in a directory of the test."""
    monkeypatch.setitem(ottla.environment, "XDG_STATE_HOME", str(tmp_path))
    name = unique("s").replace("-", "_").upper()
    ottla(
        "sql", "-e", f"CREATE STREAM {name} (k INT KEY, x STRING) WITH (kafka_topic='{name}', partitions=1);"
    )
    ottla("sql", "-e", f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two');")
    yield name
    ottla("sql", "-e", f"DROP STREAM IF EXISTS {name} DELETE TOPIC;", check=False)


def test_statements_that_need_no_spark_answer_at_once(ottla, stream):
    shown = ottla("sql", "-e", f"DESCRIBE {stream}; PRINT '{stream}' FROM BEGINNING LIMIT 2;")
    assert [line.split() for line in shown.lines[:3]] == [
        ["FIELD", "TYPE", "ROLE"],
        ["K", "INTEGER", "key"],
        ["X", "STRING"],
    ]
    assert '{"X":"two"}' in shown.lines[-1]
    as_json = ottla("sql", "--json", "-e", f"PRINT '{stream}' FROM BEGINNING LIMIT 1;")
    assert json.loads(as_json.text)["VALUE"] == '{"X":"one"}'


def test_a_script_on_stdin(ottla, stream):
    assert stream in ottla("sql", stdin=b"SHOW STREAMS;\n").text


def test_what_is_wrong_is_one_sentence_with_its_place(ottla, alone, tmp_path, stream):
    wrong = ottla("sql", "-e", f"SHOW STREAMS;\nSELECT y FROM {stream};", check=False)
    assert wrong.code == 1
    assert wrong.err == (
        "Error: line 2, column 8: SELECT column 'Y' cannot be resolved. "
        f"There is no column Y in {stream}. It has K, X.\n"
    )
    script = tmp_path / "script.sql"
    script.write_text("SELECT\n FROM x;")
    assert f"Error: {script}: line 2" in ottla("sql", "-f", script, check=False).err
    assert "cannot be read: No such file" in ottla("sql", "-f", tmp_path / "none.sql", check=False).err
    assert ottla("sql", "-e", "SHOW STREAMS;", "-f", script, check=False).code == 2
    assert "Cannot reach a broker" in alone("sql", "-e", "SHOW STREAMS;", check=False).err


class Terminal:
    """A shell at the other end of a pseudo-terminal."""

    def __init__(self, environment: dict[str, str], *args: str) -> None:
        self._master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *args],
            stdin=slave, stdout=slave, stderr=slave, env=environment, start_new_session=True,
        )  # fmt: skip
        os.close(slave)
        self.seen = ""

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def until(self, text: str, seconds: float = 60) -> None:
        start, deadline = len(self.seen), time.monotonic() + seconds
        while text not in self.seen[start:]:
            assert time.monotonic() < deadline, f"{text!r} did not come, but {self.seen[start:]!r}"
            if select.select([self._master], [], [], 0.2)[0]:
                shown = os.read(self._master, 65536).decode(errors="replace")
                self.seen += shown
                # prompt_toolkit queries the cursor position.
                if "\x1b[6n" in shown:
                    self.type("\x1b[1;1R")

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._master)


def test_the_shell_takes_several_lines_and_completes_names(ottla, stream):
    shell = Terminal(ottla.environment, "sql")
    try:
        shell.until("sql>")
        shell.type("descr\t")
        shell.until("ibe")  # the typed text may have been drawn already
        shell.type(f" {stream[:6]}\t")
        shell.until(stream[6:])
        shell.type("\r")
        shell.until("...>")
        shell.type(";\r")
        shell.until("INTEGER")
        shell.type("SELECT nonsense;\r")
        shell.until("Error:")
        shell.type("\\q\r")
        assert shell.process.wait(timeout=30) == 0
    finally:
        shell.close()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_query_over_what_there_is(ottla, stream):
    done = subprocess.run(
        [sys.executable, "-m", "ottla.cli", "sql", "--json", "-e", f"SELECT k, UCASE(x) AS x FROM {stream};"],
        env=ottla.environment, capture_output=True, timeout=200,
    )  # fmt: skip
    assert done.stderr == b""
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        {"K": 1, "X": "ONE"},
        {"K": 2, "X": "TWO"},
    ]


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_ctrl_c_ends_a_push_query_and_the_shell_goes_on(ottla, stream):
    shell = Terminal(ottla.environment, "sql")
    try:
        shell.until("sql>")
        shell.type(
            f"SET 'auto.offset.reset' = 'earliest'; SELECT CONCAT(x, '!') FROM {stream} EMIT CHANGES;\r"
        )
        shell.until("two!", seconds=200)
        os.killpg(shell.process.pid, signal.SIGINT)  # like Ctrl-C in a terminal
        shell.until("sql>")
        shell.type("SHOW QUERIES;\r")
        shell.until("STATEMENT")
        shell.type("exit\r")
        assert shell.process.wait(timeout=60) == 0
        assert "Traceback" not in shell.seen
    finally:
        shell.close()


@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_script_with_queries_runs_until_it_is_interrupted(ottla, stream, tmp_path):
    script = tmp_path / "script.sql"
    script.write_text(
        f"SET 'auto.offset.reset' = 'earliest'; CREATE STREAM {stream}_2 AS SELECT k, x FROM {stream};"
    )
    running = ottla.start("sql", "-f", str(script))
    try:
        # The records themselves prove that the query runs.
        assert values(ottla, f"{stream}_2", 2, seconds=240) == [b'{"X":"one"}', b'{"X":"two"}']
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=60)
        assert running.returncode == 0
        assert f"Created stream {stream}_2 with query CSAS_{stream}_2_".encode() in out
        assert b"Traceback" not in err
    finally:
        running.kill()
        running.communicate()
        ottla("sql", "-e", f"DROP STREAM IF EXISTS {stream}_2 DELETE TOPIC;", check=False)


def values(ottla, topic, count, seconds):
    """Return the first values of a topic, waiting for them if necessary."""
    from confluent_kafka import Consumer

    consumer = Consumer(
        {
            "bootstrap.servers": ottla.environment["OTTLA_BOOTSTRAP_SERVER"],
            "group.id": topic,
            "auto.offset.reset": "earliest",
            "topic.metadata.refresh.interval.ms": 500,
        }
    )
    found = []
    deadline = time.monotonic() + seconds
    try:
        consumer.subscribe([f"^{topic}$"])
        while len(found) < count:
            assert time.monotonic() < deadline, f"only {found} came"
            message = consumer.poll(0.5)
            if message is not None and message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return found
