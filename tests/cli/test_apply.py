"""`ottla apply` and `ottla export`: a plan, no second change, one sentence per mistake, equal clusters."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

from ottla.testing import Broker
from tests.cli.conftest import Ottla

FILE = """\
version: 1
topics:
  orders:
    partitions: 3
    replication: 1
    configs:
      retention.ms: 86400000
      cleanup.policy: [compact, delete]
  payments:
brokers:
  default:
    log.cleaner.threads: 2
users:
  ann:
    password-env: ANNS_PASSWORD
    mechanisms: {SCRAM-SHA-512: 4096}
acls:
  - principal: User:ann
    resource: topic
    name: orders
    operations: [read, describe]
  - {principal: "User:ann", resource: group, name: ann-, pattern: prefixed, operations: [read]}
quotas:
  - {user: ann, producer_byte_rate: 1000000}
  - {user: null, client-id: slow, request_percentage: 12.5}
schemas:
  orders-value:
    compatibility: FULL
    versions:
      - schema: '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'
"""


class Secured(Ottla):
    def __init__(self, broker: Broker, directory: Path) -> None:
        super().__init__(broker.bootstrap_servers)
        file = directory / f"admin-{broker.bootstrap_servers}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in broker.client_properties().items()))
        self.broker = broker
        self.environment |= {
            "OTTLA_COMMAND_CONFIG": str(file),
            "OTTLA_SCHEMA_REGISTRY_URL": broker.schema_registry_url,
            "ANNS_PASSWORD": "secret-of-ann",
            "OTTLA_PASSWORD_ANN": "secret-of-ann",
            "OTTLA_PASSWORD_ADMIN": "another",
        }


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[Secured]:
    with Broker(security="SASL_PLAINTEXT", acls=[], registry=True) as broker:
        yield Secured(broker, tmp_path)


def write(directory: Path, text: str) -> Path:
    file = directory / "cluster.yaml"
    file.write_text(text)
    return file


def test_the_second_run_changes_nothing(secured, tmp_path):
    file = write(tmp_path, FILE)
    planned = secured("apply", "-f", file, "--dry-run")
    assert (
        "+ topic orders (3 partitions, replication 1, retention.ms=86400000, cleanup.policy=compact,delete)"
        in (planned.lines)
    )
    assert "orders" not in secured("topics", "list").text
    applied = secured("apply", "-f", file)
    assert applied.lines[-1] == "Made 11 changes."
    assert applied.lines[:-1] == planned.lines
    assert secured("apply", "-f", file).text == "Nothing to change.\n"
    assert secured("apply", "-f", file, "--prune", "--dry-run").lines == ["- user admin"]
    # An independent client sees the topic.
    admin = AdminClient(secured.broker.client_config())
    configs = admin.describe_configs([ConfigResource(ResourceType.TOPIC, "orders")])
    [found] = [each.result(10) for each in configs.values()]
    assert (found["retention.ms"].value, found["cleanup.policy"].value) == ("86400000", "compact,delete")
    # The user logs in with the password.
    login = {**secured.broker.client_config(), "sasl.mechanism": "SCRAM-SHA-512"}
    login |= {"sasl.username": "ann", "sasl.password": "secret-of-ann"}
    assert list(AdminClient(login).list_topics(timeout=10).topics) == ["orders"]


def test_changes_are_named_and_prune_deletes_only_in_sections_of_the_file(secured, tmp_path):
    secured("apply", "-f", write(tmp_path, FILE))
    changed = write(
        tmp_path, "version: 1\ntopics:\n  orders: {partitions: 4, configs: {retention.ms: 5}}\nacls: []\n"
    )
    assert secured("apply", "-f", changed, "--dry-run").lines == [
        "~ topic orders: partitions 3 → 4",
        "~ topic orders: retention.ms 86400000 → 5",
    ]
    refused = secured("apply", "-f", changed, "--prune", check=False)
    assert (refused.code, refused.err) == (1, "Error: This needs a confirmation. Pass --yes to skip it.\n")
    pruned = secured("apply", "-f", changed, "--prune", "--yes")
    assert pruned.lines == [
        "~ topic orders: partitions 3 → 4",
        "~ topic orders: retention.ms 86400000 → 5",
        "- topic orders: cleanup.policy back to the default",
        "- topic payments with all its records",
        "- ACL allow User:ann to read topic orders",
        "- ACL allow User:ann to describe topic orders",
        "- ACL allow User:ann to read group names that begin with ann-",
        "Made 7 changes.",
    ]
    assert {row["user"] for row in secured("users", "list", "--json").json} == {"admin", "ann"}
    assert secured("apply", "-f", changed, "--prune", "--yes").text == "Nothing to change.\n"


def test_an_exported_file_makes_an_equal_cluster(secured, tmp_path):
    secured("apply", "-f", write(tmp_path, FILE))
    file = tmp_path / "exported.yaml"
    secured("export", "-o", file)
    assert file.stat().st_mode & 0o777 == 0o600
    with Broker(security="SASL_PLAINTEXT", acls=[], registry=True) as other:
        empty = Secured(other, tmp_path)
        empty("apply", "-f", file)
        assert empty("apply", "-f", file, "--prune", "--yes").text == "Nothing to change.\n"
        assert empty("export").text == file.read_text()


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("topics: {}", "FILE:1: version is missing. Write 'version: 1'."),
        ("version: 2", "FILE:1: version is 2, but this ottla reads version 1."),
        ("version: 1\ntopic: {}", "FILE:2: topic is unknown. Did you mean 'topics'?"),
        (
            "version: 1\ntopics:\n  a:\n    partitons: 3",
            "FILE:4: topics.a.partitons is unknown. Did you mean 'partitions'?",
        ),
        (
            "version: 1\ntopics:\n  a:\n    partitions: three",
            "FILE:4: topics.a.partitions must be a whole number of at least 1, not 'three'.",
        ),
        ("version: 1\ntopics: [a]", "FILE:2: topics must be a mapping."),
        ("version: 1\ntopics:\n  a: {}\n  a: {}", "FILE:4: topics.a is there twice."),
        ("version: 1\ntopics: {", "FILE:2: this is not YAML: expected the node content, but found '<stream end>'."),
        ("version: 1\nusers:\n  bob: {}", "FILE:3: users.bob needs a password for this change. Add one of password, password-file, password-env."),
        ("version: 1\nacls:\n- {principal: ann, resource: topic, name: x, operations: [read]}", "FILE:3: acls.0.principal must be like User:ann."),
        ("version: 1\nacls:\n- {principal: 'User:a', resource: topic, name: x, operations: [reed]}", "FILE:3: acls.0.operations.0 must be one of all, read, write, "),
        ("version: 1\nquotas:\n- {producer_byte_rate: 1}", "FILE:3: quotas.0 has no user, client-id or ip."),
        ("version: 1\ntopics: {new: }\nquotas:\n- {user: a, producer_byte_rate: 1.5}", "FILE:4: quotas.0: Producer_byte_rate cannot be a fractional"),
        ("version: 1\nschemas:\n  s: {versions: []}", "FILE:3: schemas.s has no versions."),
        ("version: 1\nconnectors:\n  c: {topics: x}", "FILE:3: connectors.c has no connector.class."),
        ("version: 1\nmirrors:\n  m: {clusters: a}", "Mirrors are files. Name their directory with --mirrors DIR."),
        ("version: 1\nbrokers:\n  7: {log.cleaner.threads: 1}", "FILE:3: brokers.7 is not a broker of the cluster, which has 0."),
        ("version: 1\ntopics:\n  a: {replication: 3}", "FILE:3: topics.a.replication is 3, but the cluster has 1 broker."),
        ("version: 1\ntopics:\n  new: {}\n  old:\n    partitions: 1", "FILE:5: topics.old.partitions is 1, but the topic has 2 partitions, and Kafka cannot remove partitions."),
        ("version: 1\ntopics:\n  new: {}\n  a:\n    configs: {retention.ms: soon}", "FILE:4: topics.a: "),
        ("version: 1\ntopics:\n  new: {}\n  old:\n    configs:\n      no.such: 1", "FILE:6: topics.old.configs.no.such: "),
    ],
)  # fmt: skip
def test_a_mistake_is_one_sentence_before_anything_is_changed(plain, tmp_path, text, sentence):
    file = write(tmp_path, text)
    refused = plain("apply", "-f", file, check=False)
    assert refused.code == 1
    assert refused.err.startswith("Error: " + sentence.replace("FILE", str(file))), refused.err
    assert len(refused.err.splitlines()) == 1
    assert [row["name"] for row in plain("topics", "list", "--json").json] == ["old"]


@pytest.fixture(scope="module")
def plain() -> Iterator[Ottla]:
    with Broker() as broker:
        broker.create_topic("old", 2)
        yield Ottla(broker.bootstrap_servers)


# Connectors, queries and mirrors


class Platform:
    """The parts of Connect's and ksqlDB's REST API that the command uses, in memory."""

    def __init__(self) -> None:
        self.connectors: dict[str, dict[str, str]] = {}
        self.sources: dict[str, str] = {}

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        if path == "/connectors?expand=info":
            return 200, {name: {"info": {"config": config}} for name, config in self.connectors.items()}
        if path.endswith("/config/validate"):
            missing = (
                []
                if body.get("topic")
                else ['Missing required configuration "topic" which has no default value.']
            )
            return 200, {"configs": [{"value": {"name": "topic", "errors": missing}}]}
        if path.startswith("/connectors/"):
            name = path.split("/")[2]
            if method == "DELETE":
                del self.connectors[name]
            else:
                self.connectors[name] = body
            return 200, {}
        statement = body["ksql"]
        if statement.startswith("LIST"):
            kind = statement.split()[1].rstrip(";")
            named = [{"name": name} for name, text in self.sources.items() if f" {kind[:-1]} " in text]
            return 200, [{kind.lower(): named}]
        if statement.startswith("DESCRIBE"):
            return 200, [{"sourceDescription": {"statement": self.sources[statement.split("`")[1]]}}]
        words = statement.replace("OR REPLACE ", "").split()
        if words[0] == "DROP":
            del self.sources[words[-1].rstrip(";")]
        else:
            self.sources[words[2].upper()] = statement
        return 200, [{}]


@contextmanager
def serving(platform: Platform) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do(self) -> None:
            size = int(self.headers.get("Content-Length") or 0)
            code, value = platform.answer(
                self.command, self.path, json.loads(self.rfile.read(size) or "null")
            )
            data = json.dumps(value).encode()
            self.send_response(code)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_PUT = do_POST = do_DELETE = do

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_connectors_queries_and_mirrors_are_applied_and_exported(plain, tmp_path):
    text = """\
version: 1
connectors:
  lines: {connector.class: FileStreamSource, topic: lines, tasks.max: 1}
mirrors:
  dr:
    clusters: here, there
    here.bootstrap.servers: localhost:9092
    there.bootstrap.servers: localhost:9192
    here->there.enabled: true
queries:
  - CREATE STREAM lines (line STRING) WITH (kafka_topic='lines', value_format='JSON');
  - CREATE TABLE counts AS SELECT line, COUNT(*) FROM lines GROUP BY line;
"""
    platform = Platform()
    with serving(platform) as url:
        options = ("--connect", url, "--sql", url, "--mirrors", tmp_path / "mirrors")
        file = write(tmp_path, text)
        assert plain("apply", "-f", file, *options).lines[-1] == "Made 4 changes."
        assert plain("apply", "-f", file, *options).text == "Nothing to change.\n"
        exported = tmp_path / "exported.yaml"
        plain("export", "-o", exported, *options)
        assert plain("apply", "-f", exported, "--prune", *options).text == "Nothing to change.\n"
        write(tmp_path, text.replace("COUNT(*)", "MAX(line)").replace("tasks.max: 1", "tasks.max: 2"))
        changed = plain("apply", "-f", file, *options)
        assert changed.lines[:2] == ["~ connector lines: tasks.max", "~ query COUNTS"]
        assert platform.sources["COUNTS"].startswith("CREATE OR REPLACE TABLE counts AS SELECT line, MAX")
        write(tmp_path, "version: 1\nconnectors:\nmirrors:\nqueries:\n")
        assert plain("apply", "-f", file, *options, "--prune", "--yes").lines[:-1] == [
            "- connector lines",
            f"- mirror dr ({tmp_path}/mirrors/dr.properties)",
            "- query COUNTS",
            "- query LINES",
        ]
        assert (platform.connectors, platform.sources) == ({}, {})
        write(tmp_path, "version: 1\nconnectors:\n  c:\n    connector.class: FileStreamSource\n")
        refused = plain("apply", "-f", file, *options, check=False)
        assert refused.err.startswith(
            f"Error: {file}:3: connectors.c.topic is refused by the worker: Missing required"
        )
        write(tmp_path, "version: 1\nmirrors:\n  m: {clusters: a}\n")
        refused = plain("apply", "-f", file, *options, check=False)
        assert refused.err.startswith(
            f"Error: {file}:3: mirrors.m cannot run: clusters must name at least two"
        )


def test_an_unreachable_broker_is_one_sentence(alone, tmp_path):
    failed = alone("apply", "-f", write(tmp_path, "version: 1\ntopics: {a: }\n"), check=False)
    assert (failed.code, len(failed.err.splitlines())) == (1, 1)
    assert failed.err.startswith("Error: Cannot reach a broker at 127.0.0.1:1: is it running?")
