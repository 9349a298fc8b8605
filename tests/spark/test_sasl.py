"""Promise: Spark reads and writes a cluster that requires a password, and a wrong one gives one clear sentence."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
from confluent_kafka.admin import (
    AdminClient,
    NewTopic,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ottla.client import cluster
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.spark.sink.sink_options import parse_sink_options
from ottla.spark.sink.task import write_rows
from ottla.spark.source.partition_planning import plan_batch
from ottla.spark.source.range_reader import read_range
from ottla.spark.source.source_options import parse_options
from tests.broker_process import free_port
from tests.spark.consuming import consume

pytestmark = pytest.mark.peers

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required"
PASSWORD = 'se"cret; 1'
QUOTED = PASSWORD.replace('"', '\\"')


@dataclass
class Servers:
    plain: str
    sasl: str


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    from bench.peers.apache_kafka import ApacheKafka, Unavailable, kafka_jars

    try:
        kafka_jars()
    except Unavailable as reason:
        pytest.skip(str(reason))
    port, guarded, controller = free_port(), free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{port},CLIENTS://127.0.0.1:{guarded}"
    config = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{controller}",
        "advertised.listeners": listeners,
        "controller.quorum.voters": f"1@127.0.0.1:{controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,CLIENTS:SASL_PLAINTEXT",
        "listener.name.clients.sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        # A properties file removes one more backslash.
        "listener.name.clients.plain.sasl.jaas.config": f'{PLAIN} user_ann="{QUOTED}";'.replace("\\", "\\\\"),
        "listener.name.clients.scram-sha-256.sasl.jaas.config": f"{SCRAM};",
        "listener.name.clients.scram-sha-512.sasl.jaas.config": f"{SCRAM};",
    }
    with ApacheKafka(port=port, data=tmp_path_factory.mktemp("kafka"), config=config) as kafka:
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        users = [
            UserScramCredentialUpsertion("ann", ScramCredentialInfo(mechanism, 4096), PASSWORD.encode())
            for mechanism in (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)
        ]
        for user in users:
            for changed in admin.alter_user_scram_credentials([user]).values():
                changed.result(30)
        yield Servers(kafka.bootstrap_servers, f"127.0.0.1:{guarded}")
    cluster._close_shared()
    cluster._clusters.clear()


def options(servers: Servers, mechanism: str, **more: str) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": servers.sasl,
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": mechanism,
        **{name.replace("__", "."): value for name, value in more.items()},
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("way", ["jaas", "names"])
def test_rows_go_out_and_come_back(servers: Servers, mechanism: str, way: str) -> None:
    topic = f"sasl-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": servers.plain})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(30)
    if way == "jaas":
        module = PLAIN if mechanism == "PLAIN" else SCRAM
        who = {"kafka__sasl__jaas__config": f'{module}\n  username="ann" password="{QUOTED}";'}
    else:
        who = {"kafka__sasl__username": "ann", "kafka__sasl__password": PASSWORD}
    sink = parse_sink_options(options(servers, mechanism, topic=topic, **who))
    assert write_rows(sink, iter([pa.record_batch({"value": ["a", "b"]})])) == 2
    assert len(consume(servers.plain, topic, 1)) == 2
    source = parse_options(options(servers, mechanism, subscribe=topic, **who), streaming=False)
    connected = Cluster(source.settings)
    [wanted] = plan_batch(connected, source)
    connected.close()
    assert sum(batch.num_rows for batch in read_range(source, wanted)) == 2


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256"])
def test_a_wrong_password_is_one_sentence(servers: Servers, mechanism: str) -> None:
    who = {"kafka__sasl__username": "ann", "kafka__sasl__password": "guess"}
    sink = parse_sink_options(options(servers, mechanism, topic="t", **who))
    with pytest.raises(ClientError) as raised:
        write_rows(sink, iter([pa.record_batch({"value": ["a"]})]))
    assert raised.value.message.startswith(f"The broker at {servers.sasl} refused the credentials: ")
    assert "\n" not in raised.value.message
    assert "guess" not in raised.value.message
