"""`ottla sql server` and `ottla sql --server` as processes. Tests that need Spark carry its mark."""

from __future__ import annotations

import json
import signal

import pytest

from tests.broker.metrics.scraping import Metrics, get

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")
pytest.importorskip("httptools")


@pytest.fixture
def sql_server(ottla, tmp_path, monkeypatch):
    """The server's URL. Spark does not start, because no Java is on its path."""
    monkeypatch.setitem(ottla.environment, "XDG_STATE_HOME", str(tmp_path / "state"))
    environment = {**ottla.environment, "JAVA_HOME": str(tmp_path), "PATH": str(tmp_path)}
    started = []

    def start(*options):
        monkeypatch.setattr(ottla, "environment", environment)
        process = ottla.start("sql", "server", "--listen", "127.0.0.1:0", *options)
        monkeypatch.undo()
        started.append(process)
        line = process.stdout.readline().decode()
        assert "The SQL server is ready at " in line, process.communicate(timeout=10)
        return line.rpartition(" ")[2].strip().rstrip(".")

    yield start
    for process in started:
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        process.communicate()


def test_the_shell_prints_the_same_through_a_server(ottla, unique, sql_server):
    url = sql_server()
    name = unique("s").replace("-", "_").upper()
    created = f"CREATE STREAM {name} (k INT KEY, x STRING) WITH (kafka_topic='{name}', partitions=1);"
    through = ("--server", url)
    assert ottla("sql", *through, "-e", created).text == f"Created stream {name}.\n"
    inserted = ottla("sql", *through, "-e", f"INSERT INTO {name} VALUES (1, 'one'), (2, 'two');")
    assert inserted.text == f"Inserted 2 rows into {name}.\n"
    script = (
        f"SET 'auto.offset.reset'='earliest'; DEFINE n='{name}'; DESCRIBE ${{n}}; SHOW PROPERTIES; SHOW VARIABLES;"
        f"DESCRIBE {name} EXTENDED; SHOW QUERIES; PRINT '{name}' FROM BEGINNING LIMIT 2; UNDEFINE n;"
    )
    for options in ((), ("--json",)):
        own = ottla("sql", *options, "-e", script)
        assert ottla("sql", *through, *options, "-e", script).text == own.text
    as_json = ottla("sql", *through, "--json", "-e", f"PRINT '{name}' FROM BEGINNING LIMIT 1;")
    assert json.loads(as_json.text)["VALUE"] == '{"X":"one"}'
    assert ottla("sql", *through, "-e", f"DROP STREAM {name} DELETE TOPIC;").code == 0


def test_it_shows_its_metrics(sql_server):
    url = sql_server()
    assert get(f"{url}/info")[0] == 200
    found = Metrics(get(f"{url}/metrics")[2])
    of = {"server": "sql", "method": "GET", "route": "/info", "status": "200"}
    assert found.value("ottla_http_requests_total", **of) == 1


def test_errors_have_the_same_words_place_and_exit_code(ottla, alone, sql_server):
    url = sql_server()
    for wrong in ("SHOW STREAMS;\n  DESCRIBE nothing;", "SELECT\n FROM x;", "UNDEFINE z;", "SET 'a' = 'b';"):
        own = ottla("sql", "-e", wrong, check=False)
        through = ottla("sql", "--server", url, "-e", wrong, check=False)
        assert (through.code, through.err) == (own.code, own.err)
    assert "Cannot reach a SQL server at http://127.0.0.1:1" in (
        alone("sql", "--server", "127.0.0.1:1", "-e", "SHOW STREAMS;", check=False).err
    )


def test_names_and_passwords(ottla, sql_server, tmp_path):
    users = tmp_path / "users"
    users.write_text("ann: secret,admin\n")
    url = sql_server("-s", "authentication.method=BASIC", "-s", f"authentication.users.file={users}")
    refused = ottla("sql", "--server", url, "-e", "SHOW STREAMS;", check=False)
    assert refused.code == 1
    assert "asks for a login" in refused.err
    assert ottla("sql", "--server", url, "--user", "ann:secret", "-e", "SHOW STREAMS;").code == 0
    assert ottla("sql", "--server", url.replace("//", "//ann:secret@"), "-e", "SHOW STREAMS;").code == 0


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("listeners=ftp://x:1", "listeners has 'ftp://x:1'"),
        ("listeners=https://127.0.0.1:0", "needs ssl.keystore.location"),
        ("authentication.method=BASIC", "needs authentication.users.file"),
        ("authentication.method=MAGIC", "NONE, BASIC or KAFKA"),
    ],
)
def test_settings_that_are_wrong_are_one_sentence(ottla, setting, said):
    refused = ottla("sql", "server", "-s", setting, check=False)
    assert refused.code == 1
    assert said in refused.err
