"""Client quotas: setting, storing and resolving them, and throttling clients that exceed them."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent

from ottla.broker.quotas import _Quota
from ottla.metadata.client_quotas import PRODUCER_BYTE_RATE, entity
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.cluster import ApiVersionsRequest, MetadataRequest
from ottla.protocol.messages.configs import (
    AlterClientQuotasRequest,
    AlterEntryData,
    ComponentData,
    DescribeClientQuotasRequest,
    EntityData,
    OpData,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.sasl import DescribeUserScramCredentialsRequest, UserName
from ottla.protocol.records import Record, build_batch
from ottla.security.principal import KafkaPrincipal
from ottla.testing import Broker
from tests.wire_client import WireClient

Names = Mapping[str, str | None]
INVALID_REQUEST = 42
EXACT, DEFAULT, SPECIFIED = 0, 1, 2


@pytest.fixture
def broker(request: pytest.FixtureRequest) -> Iterator[Broker]:
    with Broker(config=getattr(request, "param", None)) as running:
        running.create_topic("t")
        yield running


@pytest.fixture
def client(broker: Broker) -> Iterator[WireClient]:
    with WireClient(broker.bootstrap_servers) as connected:
        yield connected


def alter(client: WireClient, names: Names, quotas: Mapping[str, float | None], *, validate: bool = False):
    entry = AlterEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
        ops=[OpData(key=key, value=value or 0, remove=value is None) for key, value in quotas.items()],
    )
    [result] = client.call(AlterClientQuotasRequest(entries=[entry], validate_only=validate)).entries
    return result.error_code, result.error_message


def describe(client: WireClient, *components: tuple[str, int, str | None], strict: bool = False):
    wanted = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = client.call(DescribeClientQuotasRequest(components=wanted, strict=strict))
    if answer.error_code:
        return answer.error_code
    return {
        tuple((part.entity_type, part.entity_name) for part in entry.entity): {
            value.key: value.value for value in entry.values
        }
        for entry in answer.entries
    }


def produce(client: WireClient, size: int, acks: int = -1, *, wait: bool = True):
    batch = memoryview(build_batch([Record(0, int(time.time() * 1000), None, b"x" * size)]))
    data = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=batch)])
    request = ProduceRequest(acks=acks, topic_data=[data])
    client.send(request, 9)
    return client.receive(request, 9) if wait else None


def fetch(client: WireClient, offset: int = 0, max_bytes: int = 1 << 20):
    partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=max_bytes)
    topics = [FetchTopic(topic="t", partitions=[partition])]
    return client.call(
        FetchRequest(max_wait_ms=0, min_bytes=1, max_bytes=max_bytes, session_epoch=-1, topics=topics), 12
    )


# Setting and describing


def test_quotas_are_set_asked_for_and_taken_away(client):
    assert alter(client, {"user": "a b/c"}, {"producer_byte_rate": 1000, "consumer_byte_rate": 2000}) == (
        0,
        None,
    )
    assert alter(client, {"user": None}, {"request_percentage": 12.5}) == (0, None)
    assert alter(client, {"user": "u", "client-id": "c"}, {"producer_byte_rate": 5}) == (0, None)
    assert alter(client, {"client-id": None}, {"producer_byte_rate": 6}) == (0, None)
    assert alter(client, {"ip": "10.0.0.1"}, {"connection_creation_rate": 7}) == (0, None)
    assert alter(client, {"client-id": "tried"}, {"producer_byte_rate": 6}, validate=True) == (0, None)
    assert describe(client) == {
        (("user", "a b/c"),): {"producer_byte_rate": 1000, "consumer_byte_rate": 2000},
        (("user", None),): {"request_percentage": 12.5},
        (("client-id", "c"), ("user", "u")): {"producer_byte_rate": 5},
        (("client-id", None),): {"producer_byte_rate": 6},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 7},
    }
    alter(client, {"user": "a b/c"}, {"producer_byte_rate": None, "consumer_byte_rate": 3})
    alter(client, {"user": None}, {"request_percentage": None})
    assert describe(client, ("user", SPECIFIED, None), strict=True) == {
        (("user", "a b/c"),): {"consumer_byte_rate": 3}
    }


def test_filters_choose_by_name_default_and_type(client):
    for names in ({"user": "u"}, {"user": None}, {"user": "u", "client-id": "c"}, {"client-id": "c"}):
        alter(client, names, {"producer_byte_rate": 1})
    u, default, uc, c = (
        (("user", "u"),),
        (("user", None),),
        (("client-id", "c"), ("user", "u")),
        (("client-id", "c"),),
    )
    assert set(describe(client, ("user", EXACT, "u"))) == {u, uc}
    assert set(describe(client, ("user", EXACT, "u"), strict=True)) == {u}
    assert set(describe(client, ("user", DEFAULT, None))) == {default}
    assert set(describe(client, ("client-id", SPECIFIED, None))) == {c, uc}
    assert set(describe(client, ("client-id", EXACT, "c"), ("user", SPECIFIED, None))) == {uc}
    assert describe(client, ("ip", SPECIFIED, None)) == {}


@pytest.mark.parametrize(
    "component", [("", 2, None), ("user", 0, None), ("user", 1, "x"), ("user", 2, "x"), ("user", 3, None)]
)
def test_filters_that_make_no_sense_are_refused(client, component):
    assert describe(client, component) == INVALID_REQUEST


@pytest.mark.parametrize(
    ("names", "quotas", "message"),
    [
        ({}, {"producer_byte_rate": 1}, "empty client quota entity"),
        ({"group": "g"}, {"producer_byte_rate": 1}, "Unhandled client quota entity type: group"),
        ({"user": ""}, {"producer_byte_rate": 1}, "Empty user"),
        ({"user": "u", "ip": "1.2.3.4"}, {"producer_byte_rate": 1}, "combination"),
        ({"ip": "some host"}, {"connection_creation_rate": 1}, "not a valid IP"),
        ({"ip": "1.2.3.4"}, {"producer_byte_rate": 1}, "Invalid configuration key producer_byte_rate"),
        ({"user": "u"}, {"connection_creation_rate": 1}, "Invalid configuration key"),
        ({"user": "u"}, {"bogus": 1}, "Invalid configuration key bogus"),
        ({"user": "u"}, {"producer_byte_rate": 1.5}, "fractional"),
        ({"user": "u"}, {"producer_byte_rate": -1}, "greater than 0"),
        ({"user": "u"}, {"producer_byte_rate": float("nan")}, "greater than 0"),
        ({"user": "u"}, {"producer_byte_rate": 1e30}, "too large"),
    ],
)
def test_quotas_that_make_no_sense_are_refused(client, names, quotas, message):
    code, text = alter(client, names, quotas)
    assert code == INVALID_REQUEST
    assert message in text
    assert describe(client) == {}


def test_quotas_survive_a_restart_under_kafkas_nodes(tmp_path):
    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        alter(client, {"user": "a b/c", "client-id": None}, {"producer_byte_rate": 1000})
        alter(client, {"ip": None}, {"connection_creation_rate": 9})
        before = describe(client)
    with Broker(data=tmp_path) as broker, WireClient(broker.bootstrap_servers) as client:
        assert describe(client) == before
    with contextlib.closing(sqlite3.connect(tmp_path / "ottla-metadata.db")) as store:
        rows = dict(store.execute("SELECT path, data FROM node WHERE path LIKE '/config/%'"))
    user = json.loads(rows["/config/users/a%20b%2Fc/clients/<default>"])
    assert user["config"] == {"producer_byte_rate": "1000"}
    assert json.loads(rows["/config/ips/<default>"])["config"] == {"connection_creation_rate": "9"}


# Precedence


def test_the_most_specific_quota_counts():
    limits = [
        ({"client-id": None}, 8),
        ({"client-id": "c"}, 7),
        ({"user": None}, 6),
        ({"user": None, "client-id": None}, 5),
        ({"user": None, "client-id": "c"}, 4),
        ({"user": "u"}, 3),
        ({"user": "u", "client-id": None}, 2),
        ({"user": "u", "client-id": "c"}, 1),
    ]
    quotas: dict = {}
    for names, limit in limits:
        quotas[entity(names)] = {PRODUCER_BYTE_RATE: float(limit)}
        quota = _Quota(PRODUCER_BYTE_RATE, 11, 1)
        quota.set_limits(quotas)
        assert quota.find("u", "c")[0] == limit
    assert quota.find("other", "other")[0] == 5
    assert quota.find("u", "other")[0] == 2


def test_a_users_clients_share_its_quota_and_clients_of_a_default_do_not():
    quota = _Quota(PRODUCER_BYTE_RATE, 11, 1)
    quota.set_limits({entity({"user": None}): {PRODUCER_BYTE_RATE: 1.0}})
    assert quota.find("u", "a")[1] is quota.find("u", "b")[1]
    assert quota.find("u", "a")[1] is not quota.find("v", "a")[1]
    quota.set_limits({entity({"client-id": None}): {PRODUCER_BYTE_RATE: 1.0}})
    assert quota.find("u", "a")[1] is quota.find("v", "a")[1]
    assert quota.find("u", "a")[1] is not quota.find("u", "b")[1]


# Exceeding a quota


def test_a_producer_over_its_quota_is_told_and_not_heard_for_that_time(broker, client):
    alter(client, {"client-id": "test"}, {"producer_byte_rate": 10_000})
    assert produce(client, 50_000).throttle_time_ms == 0  # a burst is allowed: 10 KB/s over ten seconds
    throttled = produce(client, 55_000)
    assert 300 < throttled.throttle_time_ms < 2000
    assert throttled.responses[0].partition_responses[0].error_code == 0
    started = time.monotonic()
    client.call(ApiVersionsRequest())
    assert time.monotonic() - started > throttled.throttle_time_ms / 1000 - 0.1
    with WireClient(broker.bootstrap_servers) as admin:
        alter(admin, {"client-id": "test"}, {"producer_byte_rate": None})
    assert produce(client, 500_000).throttle_time_ms == 0


def test_a_producer_that_wants_no_answer_is_throttled_as_well(client):
    alter(client, {"user": "ANONYMOUS"}, {"producer_byte_rate": 10_000})
    produce(client, 105_000, acks=0, wait=False)
    started = time.monotonic()
    client.call(ApiVersionsRequest())
    assert time.monotonic() - started > 0.3


@pytest.mark.parametrize("broker", [{"quota.window.num": "3"}], indirect=True, ids=["three windows"])
def test_a_consumer_over_its_quota_gets_nothing_and_then_everything(broker, client):
    for _ in range(12):
        broker.produce("t", b"x" * 10_000)
    alter(client, {"client-id": None}, {"consumer_byte_rate": 30_000})
    offset = 0
    waits = []
    while offset < 12:
        answer = fetch(client, offset, 30_000)
        waits.append(answer.throttle_time_ms)
        if answer.throttle_time_ms:
            assert not answer.responses
        else:
            offset += 3 if len(answer.responses[0].partitions[0].records) > 29_000 else 2
    assert any(waits)


def test_a_batch_larger_than_the_quota_allows_still_arrives(broker, client):
    broker.produce("t", b"x" * 100_000)
    alter(client, {"client-id": None}, {"consumer_byte_rate": 100})
    assert len(fetch(client).responses[0].partitions[0].records) > 100_000
    assert fetch(client, 0, 1000).throttle_time_ms > 0


def test_request_time_is_limited(client):
    alter(client, {"client-id": "test"}, {"request_percentage": 0.00001})
    waits = [client.call(MetadataRequest(topics=None)).throttle_time_ms for _ in range(3)]
    assert max(waits) > 0
    assert max(waits) <= 1000


def test_other_clients_do_not_notice(broker, client):
    alter(client, {"client-id": "test"}, {"producer_byte_rate": 100})
    assert produce(client, 100_000).throttle_time_ms > 10_000
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "client.id": "other"})
    producer.produce("t", b"x")
    assert producer.flush(5) == 0


def test_an_address_that_connects_too_often_is_turned_away(broker, client):
    alter(client, {"ip": "127.0.0.1"}, {"connection_creation_rate": 1})
    for _ in range(5):  # a burst is allowed
        with WireClient(broker.bootstrap_servers) as again:
            again.call(ApiVersionsRequest())
    refused = 0
    for _ in range(9):
        with WireClient(broker.bootstrap_servers) as again:
            again.socket.settimeout(0.3)
            try:
                again.call(ApiVersionsRequest())
            except (TimeoutError, ConnectionError):
                refused += 1
    assert refused
    client.call(ApiVersionsRequest())


def test_without_quotas_nothing_is_counted(broker, client):
    produce(client, 10)
    assert not broker._running().broker.quotas.active


def test_real_clients_honour_the_throttle(broker, client):
    alter(client, {"client-id": "librdkafka"}, {"producer_byte_rate": 50_000, "consumer_byte_rate": 200_000})
    throttles: list[ThrottleEvent] = []
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "client.id": "librdkafka",
        "throttle_cb": throttles.append,
    }
    producer = Producer({**settings, "linger.ms": 5, "batch.size": 20_000})
    started = time.monotonic()
    for number in range(60):
        producer.produce("t", b"%05d" % number + b"x" * 10_000)
    assert producer.flush(30) == 0
    # 600 KB at 50 KB/s with a burst of ten seconds' worth leaves two seconds to wait.
    assert 1 < time.monotonic() - started < 15
    assert any(event.throttle_time > 0 for event in throttles)
    consumer = Consumer({**settings, "group.id": "g", "auto.offset.reset": "earliest"})
    consumer.subscribe(["t"])
    seen = []
    while len(seen) < 60:
        message = consumer.poll(20)
        assert message is not None
        assert message.error() is None
        seen.append(int(message.value()[:5]))
    consumer.close()
    assert seen == list(range(60))


def test_nobody_has_credentials_which_tools_ask_for_beside_the_quotas(client: WireClient) -> None:
    everybody = client.call(DescribeUserScramCredentialsRequest(users=None))
    assert (everybody.error_code, everybody.results) == (0, [])
    [ann] = client.call(DescribeUserScramCredentialsRequest(users=[UserName(name="ann")])).results
    assert (ann.user, ErrorCode(ann.error_code)) == ("ann", ErrorCode.RESOURCE_NOT_FOUND)


def test_a_user_s_quota_counts_for_the_principal_of_the_connection(
    broker: Broker, client: WireClient
) -> None:
    assert alter(client, {"user": "alice"}, {"producer_byte_rate": 100}) == (0, None)
    assert produce(client, 10_000).throttle_time_ms == 0
    [connection] = broker._running()._listeners[0].connections
    assert str(connection.principal) == "User:ANONYMOUS"
    connection.principal = KafkaPrincipal("User", "alice")
    assert produce(client, 10_000).throttle_time_ms > 0
