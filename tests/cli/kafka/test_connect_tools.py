"""connect-distributed, connect-standalone and connect-plugin-path: their messages before anything runs."""

import zipfile
from pathlib import Path

import pytest

from ottla.cli.kafka import connect as plugin_path
from ottla.cli.kafka import connect as workers

TOOLS = {
    "connect-distributed": workers.distributed,
    "connect-standalone": workers.standalone,
    "connect-plugin-path": plugin_path.main,
}


def run(monkeypatch, capsys, name, *words):
    monkeypatch.setattr("sys.argv", [name, *map(str, words)])
    with pytest.raises(SystemExit) as ended:
        TOOLS[name]()
    said = capsys.readouterr()
    return ended.value.code, said.out, said.err


@pytest.mark.parametrize(
    ("name", "usage"),
    [
        ("connect-distributed", "USAGE: connect-distributed [-daemon] connect-distributed.properties"),
        (
            "connect-standalone",
            "USAGE: connect-standalone [-daemon] connect-standalone.properties [connector1.properties "
            "connector2.json ...]",
        ),
    ],
)
def test_without_arguments_the_usage_is_kafkas(monkeypatch, capsys, name, usage):
    code, out, err = run(monkeypatch, capsys, name)
    assert code == 1
    assert usage in out + err


@pytest.mark.parametrize("name", ["connect-distributed", "connect-standalone"])
def test_a_file_that_is_not_there_or_wrong_is_one_sentence(monkeypatch, capsys, name, tmp_path):
    code, _, err = run(monkeypatch, capsys, name, tmp_path / "missing.properties")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "There is no file" in err
    wrong = tmp_path / "wrong.properties"
    wrong.write_text("bootstrap.servers=localhost:1\n")
    code, _, err = run(monkeypatch, capsys, name, wrong)
    assert (code, len(err.splitlines())) == (1, 1)
    assert 'Missing required configuration "key.converter" which has no default value.' in err


def test_a_connector_of_a_standalone_worker_needs_a_name(monkeypatch, capsys, tmp_path):
    worker, connector = tmp_path / "worker.properties", tmp_path / "connector.json"
    worker.write_text("bootstrap.servers=localhost:1\n")
    connector.write_text('{"config": {"connector.class": "FileStreamSource"}}')
    code, _, err = run(monkeypatch, capsys, "connect-standalone", worker, connector)
    assert code == 1
    assert err.strip().endswith("does not say the name of the connector: add name=….")
    connector.write_text("{")
    code, _, err = run(monkeypatch, capsys, "connect-standalone", worker, connector)
    assert (code, len(err.splitlines())) == (1, 1)
    assert "is not JSON" in err


def test_the_files_of_the_repository_can_be_read():
    from ottla.cli.commands.connect import read_connector_file
    from ottla.cli.commands.servers.http_servers import file_properties
    from ottla.connect.config.worker_config import WorkerConfig

    config = Path(__file__).parents[3] / "config"
    for kind in ("distributed", "standalone"):
        properties = file_properties(config / f"connect-{kind}.properties")
        worker = WorkerConfig.from_properties(properties, distributed=kind == "distributed")
        assert worker.warnings == ()
    for kind in ("file-source", "file-sink", "console-source", "console-sink"):
        assert read_connector_file(config / f"connect-{kind}.properties").config["name"] == f"local-{kind}"


def test_connectors_in_jars_are_listed_as_by_kafkas(monkeypatch, capsys, tmp_path):
    (tmp_path / "file").mkdir()
    with zipfile.ZipFile(tmp_path / "file" / "connect-file-4.3.0.jar", "w") as jar:
        jar.writestr(
            "META-INF/services/org.apache.kafka.connect.source.SourceConnector",
            "org.apache.kafka.connect.file.FileStreamSourceConnector\n",
        )
    monkeypatch.setattr("sys.argv", ["connect-plugin-path", "list", "--plugin-path", str(tmp_path)])
    with pytest.raises(SystemExit) as ended:
        plugin_path.main()
    assert ended.value.code in (0, None)
    assert capsys.readouterr().out == (
        "pluginName\tfirstAlias\tsecondAlias\tpluginVersion\tpluginType\tisLoadable\thasManifest\tpluginLocation\n"
        "org.apache.kafka.connect.file.FileStreamSourceConnector\tFileStreamSourceConnector\tFileStreamSource\t4.3.0\t"
        f"source\ttrue\ttrue\t{tmp_path}/file\n"
        "\nTotal plugins:      \t1\nLoadable plugins:   \t1\nCompatible plugins: \t1\n"
    )
    code, _, err = run(monkeypatch, capsys, "connect-plugin-path", "list")
    assert code == 1
    assert "Must specify at least one --plugin-location, --plugin-path, or --worker-config" in err


def test_an_unknown_connector_is_noticed_before_spark_starts(monkeypatch, capsys, tmp_path):
    worker = tmp_path / "worker.properties"
    worker.write_text("bootstrap.servers=127.0.0.1:1\n")
    connector = tmp_path / "connector.properties"
    connector.write_text("name=c\nconnector.class=org.apache.kafka.connect.file.FileStreamSorceConnector\n")
    monkeypatch.setattr("ottla.cli.commands.connect_worker.serve", lambda *_, **__: pytest.fail("it started"))
    code, _, err = run(monkeypatch, capsys, "connect-standalone", worker, connector)
    assert code == 1
    assert "there is no connector 'org.apache.kafka.connect.file.FileStreamSorceConnector'." in err
    assert "Did you mean FileStreamSourceConnector" in err
    assert len(err) < 500
