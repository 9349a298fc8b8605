"""Rights of a worker's callers, and the local files that their connectors may use."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.connect.config.config_def import ConfigError
from ottla.testing import Broker, acl
from tests.connect.worker.workers import Answer, Worker, distributed_properties, standalone_properties

USERS = {"ops": "ops-secret", "viewer": "viewer-secret", "stranger": "stranger-secret"}
FILE_PROVIDER = "org.apache.kafka.common.config.provider.FileConfigProvider"
ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker() as running:
        yield running


def refusal(worker: Worker, config: dict[str, str]) -> str:
    """Create the connector and return the error, or "". Validation gives the same error."""
    plugin = config["connector.class"]
    checked = worker.call("PUT", f"/connector-plugins/{plugin}/config/validate", {"name": "x", **config})
    answer = worker.call("PUT", "/connectors/x/config", config)
    if answer.status in (200, 201):
        assert checked.body["error_count"] == 0
        worker.call("DELETE", "/connectors/x")
        return ""
    assert answer.status == 400
    assert checked.body["error_count"] > 0
    return str(answer.body["message"])


def local_connectors(place: str) -> dict[str, dict[str, str]]:
    """Return every built-in connector that can use a local file, by the setting concerned."""
    topics = {"topics": "t"}
    return {
        "source": {"connector.class": "FileStreamSource", "topic": "t", "file": f"{place}/in"},
        "stdin": {"connector.class": "FileStreamSource", "topic": "t"},
        "sink": {"connector.class": "FileStreamSink", **topics, "file": f"{place}/out"},
        "stdout": {"connector.class": "FileStreamSink", **topics},
        "spooldir": {
            "connector.class": "SpoolDirLineDelimitedSource",
            "topic": "t",
            "input.path": place,
            "error.path": place,
            "finished.path": place,
            "input.file.pattern": ".*",
        },
        "files": {"connector.class": "FilesSink", **topics, "store.url": place, "flush.size": "1"},
        "file URL": {
            "connector.class": "FilesSink",
            **topics,
            "store.url": f"file://{place}",
            "flush.size": "1",
        },
        "hdfs": {"connector.class": "HdfsSink", **topics, "hdfs.url": f"file://{place}", "flush.size": "1"},
        "datagen": {
            "connector.class": "Datagen",
            "kafka.topic": "t",
            "schema.filename": f"{place}/schema.avsc",
        },
        "sqlite source": {
            "connector.class": "JdbcSource",
            "connection.url": f"jdbc:sqlite:{place}/db",
            "mode": "bulk",
            "topic.prefix": "t",
        },
        "sqlite sink": {"connector.class": "JdbcSink", **topics, "connection.url": f"jdbc:sqlite:{place}/db"},
        "sqlite by dialect": {
            "connector.class": "JdbcSink",
            **topics,
            "connection.url": f"jdbc:postgresql://x/{place}/db",
            "dialect.name": "SqliteDatabaseDialect",
        },
        "delta": {"connector.class": "DeltaSink", **topics, "table.uri": f"{place}/table"},
        "iceberg": {
            "connector.class": "org.apache.iceberg.connect.IcebergSinkConnector",
            **topics,
            "iceberg.tables": "a.b",
            "iceberg.catalog.type": "sql",
            "iceberg.catalog.uri": f"sqlite:///{place}/catalog.db",
            "iceberg.catalog.warehouse": f"file://{place}/warehouse",
        },
    }


@pytest.fixture(scope="module")
def closed(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    """A worker without allowed directories."""
    offsets = tmp_path_factory.mktemp("closed") / "offsets"
    given = standalone_properties(broker.bootstrap_servers, offsets)
    del given["connector.file.directories"]
    with Worker(given) as worker:
        yield worker


@pytest.mark.parametrize("which", local_connectors("/"))
def test_connectors_over_rest_use_no_local_file_by_default(
    closed: Worker, tmp_path: Path, which: str
) -> None:
    message = refusal(closed, local_connectors(str(tmp_path))[which])
    assert (
        "may use local files only below the directories that the worker's connector.file.directories"
        in message
    )
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("path", ["../secret", "link/secret", "in/../../secret", "/etc/passwd", "loop/x"])
def test_they_stay_below_the_directories_that_the_operator_names(
    broker: Broker, tmp_path: Path, path: str
) -> None:
    allowed = tmp_path / "allowed"
    (allowed / "in").mkdir(parents=True)
    (tmp_path / "secret").write_text("password")
    (allowed / "link").symlink_to(tmp_path)
    (allowed / "loop").symlink_to(allowed / "loop")
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    with Worker({**given, "connector.file.directories": f"{allowed}"}) as worker:
        source = {"connector.class": "FileStreamSource", "topic": "t"}
        assert refusal(worker, {**source, "file": str(allowed / "in" / "lines")}) == ""
        message = refusal(worker, {**source, "file": str(allowed / path)})
        assert f"connector.file.directories names ({allowed})" in message
        elsewhere = {
            "connector.class": "FilesSink",
            "topics": "t",
            "flush.size": "1",
            "topics.dir": f"../{path}",
        }
        assert "topics.dir" in refusal(worker, {**elsewhere, "store.url": str(allowed)})


def test_connectors_on_the_command_line_may_use_any_file(broker: Broker, tmp_path: Path) -> None:
    """Kafka's quick start: the operator wrote the connector's file."""
    lines = tmp_path / "test.txt"
    lines.write_text("foo\nbar\n")
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    del given["connector.file.directories"]
    source = {
        "name": "local-file-source",
        "connector.class": "FileStreamSource",
        "tasks.max": "1",
        "file": str(lines),
        "topic": "connect-test",
    }
    with Worker(given, connectors=[source]) as worker:
        worker.wait_until("local-file-source", "RUNNING", ["RUNNING"])
        # Another user cannot turn it into a different connector.
        changed = {**source, "file": "/etc/passwd"}
        assert worker.call("PUT", "/connectors/local-file-source/config", changed).status == 400
        assert (
            worker.call("PATCH", "/connectors/local-file-source/config", {"file": "/etc/passwd"}).status
            == 400
        )
        assert worker.call("GET", "/connectors/local-file-source/config").body["file"] == str(lines)


def test_a_relative_directory_is_refused_at_the_start(broker: Broker, tmp_path: Path) -> None:
    given = standalone_properties(broker.bootstrap_servers, tmp_path / "offsets")
    with pytest.raises(ConfigError, match=r"connector\.file\.directories has 'in': write an absolute path\."):
        Worker({**given, "connector.file.directories": "in"}).start()


def test_config_providers_give_callers_only_what_the_operator_allows(
    broker: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONNECT_TOPIC", "t")
    allowed, secret = tmp_path / "allowed.properties", tmp_path / "secret.properties"
    allowed.write_text("topic=t\n")
    secret.write_text("password=x\n")
    unlimited = {
        "config.providers": "file,env",
        "config.providers.file.class": FILE_PROVIDER,
        "config.providers.env.class": ENV_PROVIDER,
    }
    given = {**standalone_properties(broker.bootstrap_servers, tmp_path / "offsets"), **unlimited}
    source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "in")}
    with Worker(given) as worker:
        message = refusal(worker, {**source, "topic": f"${{file:{secret}:password}}"})
        assert "Set config.providers.file.param.allowed.paths on the worker." in message
        message = refusal(worker, {**source, "topic": "${env:HOME}"})
        assert "Set config.providers.env.param.allowlist.pattern on the worker." in message
    limits = {
        "config.providers.file.param.allowed.paths": str(allowed),
        "config.providers.env.param.allowlist.pattern": "CONNECT_.*",
    }
    with Worker({**given, **limits}) as worker:
        assert refusal(worker, {**source, "topic": f"${{file:{allowed}:topic}}"}) == ""
        assert refusal(worker, {**source, "topic": "${env:CONNECT_TOPIC}"}) == ""


# Logins


@pytest.fixture(scope="module")
def secured() -> Iterator[Worker]:
    rights = [acl("ops", "alter"), acl("viewer", "describe")]
    with Broker(security="SASL_PLAINTEXT", users=USERS, acls=rights) as broker:
        client = broker.client_properties("admin")
        given = {
            **distributed_properties(broker.bootstrap_servers),
            **client,
            "authentication.method": "KAFKA",
        }
        for kind in ("producer", "consumer", "admin"):
            given |= {f"{kind}.{name}": value for name, value in client.items()}
        with Worker(given) as worker:
            worker.wait_until_ready()
            yield worker


def asking(worker: Worker, user: str | None, method: str, path: str, body: object = None) -> Answer:
    if user is None:
        return worker.call(method, path, body)
    name, _, password = user.partition(":")
    pair = f"{name}:{password or USERS[name]}".encode()
    return worker.call(method, path, body, Authorization=f"Basic {base64.b64encode(pair).decode()}")


MOCK = {"connector.class": "MockSource", "tasks.max": "1", "jdbc.password": "hush", "proxy": "http://u:p@h/"}


def test_a_worker_knows_the_users_of_its_cluster(secured: Worker) -> None:
    body = {"name": "made", "config": MOCK}
    assert asking(secured, None, "POST", "/connectors", body).status == 401
    assert asking(secured, "ops:wrong", "POST", "/connectors", body).status == 401
    assert asking(secured, "stranger", "POST", "/connectors", body).status == 403
    refused = asking(secured, "viewer", "POST", "/connectors", body)
    assert (refused.status, refused.body["message"]) == (
        403,
        "User:viewer may not do this: it needs the rights of an admin.",
    )
    assert asking(secured, "ops", "POST", "/connectors", body).status == 201
    assert asking(secured, None, "GET", "/health").status == 200
    assert asking(secured, "stranger", "GET", "/connectors").status == 403
    assert asking(secured, "stranger", "GET", "/connector-plugins").status == 200
    for method, path in (
        ("DELETE", "/connectors/made"),
        ("PUT", "/connectors/made/pause"),
        ("POST", "/connectors/made/restart"),
        ("PUT", "/connectors/made/config"),
        ("PATCH", "/connectors/made/offsets"),
        ("PUT", "/connector-plugins/MockSource/config/validate"),
        ("PUT", "/admin/loggers/root"),
    ):
        assert (path, asking(secured, "viewer", method, path, {}).status) == (path, 403)


def test_secrets_are_for_admins(secured: Worker) -> None:
    assert asking(secured, "ops", "PUT", "/connectors/masked/config", MOCK).status == 201
    assert asking(secured, "ops", "GET", "/connectors/masked/config").body["jdbc.password"] == "hush"
    secured_paths = ("/connectors/masked", "/connectors/masked/config", "/connectors?expand=info")
    for path in (*secured_paths, "/connectors/masked/tasks"):
        shown = asking(secured, "viewer", "GET", path)
        assert shown.status == 200
        assert "hush" not in str(shown.body)
        assert "u:p@" not in str(shown.body)
    shown = asking(secured, "viewer", "GET", "/connectors/masked/config")
    assert (shown.body["jdbc.password"], shown.body["tasks.max"]) == ("[hidden]", "1")
