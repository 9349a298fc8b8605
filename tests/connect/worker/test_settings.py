"""Promise: worker settings have Kafka's meaning, and each error is one sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.client.admin.configs import Resource, describe_configs
from ottla.client.admin.topics import describe_topics
from ottla.client.cluster import Cluster
from ottla.connect.config.config_def import ConfigError
from ottla.connect.config.worker_config import WorkerConfig
from ottla.testing import Broker
from tests.connect.worker.workers import Worker, call, distributed_properties


def test_defaults_and_warnings() -> None:
    given = distributed_properties("localhost:9092", "g")
    for name in (
        "offset.storage.partitions",
        "listeners",
        "heartbeat.interval.ms",
        "offset.flush.interval.ms",
    ):
        del given[name]
    worker = WorkerConfig.from_properties(
        {**given, "rest.port": "1", "my.setting": "x", "producer.acks": "all"}
    )
    assert worker.values["listeners"] == ["http://:8083"]
    assert worker.values["offset.storage.partitions"] == 25
    assert worker.values["status.storage.partitions"] == 5
    assert worker.values["scheduled.rebalance.max.delay.ms"] == 300_000
    assert worker.offset_flush_interval == 60
    assert worker.overridden("producer")["acks"] == "all"
    assert worker.warnings == (
        "The setting rest.port has no effect any more: use listeners instead.",
        "The setting my.setting is not known to a worker and is ignored.",
    )


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [
        ({"group.id": None}, 'Missing required configuration "group.id" which has no default value.'),
        ({"key.converter": None}, 'Missing required configuration "key.converter"'),
        ({"session.timeout.ms": "x"}, "Invalid value x for configuration session.timeout.ms"),
        ({"heartbeat.interval.ms": "10000"}, "must be less than session.timeout.ms"),
        ({"config.storage.replication.factor": "0"}, "Replication factor must be"),
        ({"status.storage.topic": "g-configs"}, "must be three topics"),
        ({"connect.protocol": "telepathy"}, "Invalid value telepathy"),
    ],
)
def test_a_wrong_setting_is_named(changed: dict[str, str | None], sentence: str) -> None:
    given = {**distributed_properties("localhost:9092", "g"), **changed}
    with pytest.raises(ConfigError) as wrong:
        WorkerConfig.from_properties({name: value for name, value in given.items() if value is not None})
    assert sentence in wrong.value.message


@pytest.mark.parametrize(
    ("setting", "value", "sentence"),
    [
        ("listeners", "ftp://x:1", "write http://HOST:PORT"),
        ("listeners", "https://127.0.0.1:0", "needs ssl.keystore.location"),
        ("rest.extension.classes", "com.example.Extension", "which is Java"),
        ("response.http.headers.config", "shout X: y", "write 'set NAME: VALUE'"),
    ],
)
def test_a_worker_with_a_wrong_listener_does_not_start(setting: str, value: str, sentence: str) -> None:
    given = {**distributed_properties("127.0.0.1:1", "g"), setting: value}
    with pytest.raises(ConfigError) as wrong:
        Worker(given).start()
    assert sentence in wrong.value.message


def test_the_topics_are_created_compacted_and_wrong_ones_are_refused(broker: Broker) -> None:
    given = distributed_properties(broker.bootstrap_servers, "topics")
    given["status.storage.min.compaction.lag.ms"] = "7"
    with Worker(given) as worker:
        worker.wait_until_ready()
    cluster = Cluster(worker.config.client_settings)
    names = ["topics-configs", "topics-offsets", "topics-status"]
    assert [len(each.partitions) for each in describe_topics(cluster, names)] == [1, 5, 5]
    for name in names:
        found = {each.name: each.value for each in describe_configs(cluster, Resource("topic", name))}
        assert found["cleanup.policy"] == "compact"
        assert found["min.compaction.lag.ms"] == ("7" if name == "topics-status" else "0")
    cluster.close()
    broker.create_topic("plain")
    broker.create_topic("wide", partitions=2, config={"cleanup.policy": "compact"})
    for name, sentence in (
        (
            "plain",
            "Topic 'plain' supplied via the 'config.storage.topic' property is required to have "
            "'cleanup.policy=compact' to guarantee consistency and durability of connector configurations, but found "
            "the topic currently has 'cleanup.policy=delete'.",
        ),
        (
            "wide",
            "Topic 'wide' supplied via the 'config.storage.topic' property is required to have a single partition in "
            "order to guarantee consistency of connector configurations, but found 2 partitions.",
        ),
    ):
        with pytest.raises(ConfigError) as refused:
            Worker({**given, "config.storage.topic": name}).start()
        assert refused.value.message.startswith(sentence)


def test_users_headers_and_listeners_for_admins(broker: Broker, tmp_path: Path) -> None:
    users, jaas = tmp_path / "users.properties", tmp_path / "jaas.conf"
    users.write_text("# people\nann=secret\n")
    jaas.write_text(
        "KafkaConnect {\n  org.apache.kafka.connect.rest.basic.auth.extension.PropertyFileLoginModule required\n"
        f'    file="{users}";\n}};\n'
    )
    given = {
        **distributed_properties(broker.bootstrap_servers, "secured"),
        "rest.extension.classes": "org.apache.kafka.connect.rest.basic.auth.extension.BasicAuthSecurityRestExtension",
        "java.security.auth.login.config": str(jaas),
        "admin.listeners": "http://127.0.0.1:0",
        "access.control.allow.origin": "https://*.example.org",
        "access.control.allow.methods": "GET,PUT",
        "response.http.headers.config": 'set X-Frame-Options: DENY, "add Cache-Control: no-cache, no-store"',
    }
    with Worker(given) as worker:
        assert worker.call("GET", "/connectors").status == 401
        assert worker.call("GET", "/connectors", Authorization="Basic YW5uOndyb25n").status == 401
        ann = "Basic YW5uOnNlY3JldA=="
        answer = worker.call("GET", "/connectors", Authorization=ann, Origin="https://a.example.org")
        assert (answer.status, answer.body) == (200, [])
        assert answer.headers["Access-Control-Allow-Origin"] == "https://a.example.org"
        assert answer.headers["X-Frame-Options"] == "DENY"
        assert answer.headers["Cache-Control"] == "no-cache, no-store"
        other = worker.call("GET", "/connectors", Authorization=ann, Origin="https://evil.test")
        assert "Access-Control-Allow-Origin" not in other.headers
        before = worker.call(
            "OPTIONS", "/connectors", Origin="https://a.example.org", Access_Control_Request_Method="PUT"
        )
        assert (before.status, before.headers["Access-Control-Allow-Methods"]) == (200, "GET,PUT")
        assert worker.call("GET", "/admin/loggers", Authorization=ann).status == 404
        assert worker.server is not None
        admin = worker.server._servers[1][1]
        url = f"http://127.0.0.1:{admin.port}"
        assert call(url, "GET", "/admin/loggers", headers={"Authorization": ann}).status == 200
        assert call(url, "GET", "/connectors", headers={"Authorization": ann}).status == 404
