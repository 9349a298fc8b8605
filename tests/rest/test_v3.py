"""The v3 paths, through a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator

import httpx
import pytest
from confluent_kafka import Consumer as KafkaConsumer

from ottla.testing import Broker
from tests.history.recorder import wait_until


@pytest.fixture
def cluster(http: httpx.Client) -> Iterator[httpx.Client]:
    """A client for the cluster's path."""
    [found] = http.get("/v3/clusters").json()["data"]
    with httpx.Client(base_url=found["metadata"]["self"], timeout=30) as client:
        yield client


def test_clusters_and_brokers(http: httpx.Client, cluster: httpx.Client) -> None:
    found = cluster.get("").json()
    assert found["kind"] == "KafkaCluster"
    assert found["metadata"]["resource_name"] == f"crn:///kafka={found['cluster_id']}"
    assert http.get(found["topics"]["related"]).json()["kind"] == "KafkaTopicList"
    assert http.get(found["controller"]["related"]).json()["broker_id"] == 0
    [broker] = http.get(found["brokers"]["related"]).json()["data"]
    assert (broker["kind"], broker["broker_id"], broker["host"]) == ("KafkaBroker", 0, "127.0.0.1")
    assert cluster.get("/brokers/7").status_code == 404
    other = http.get("/v3/clusters/another/topics")
    assert (other.status_code, other.json()["message"]) == (404, "Cluster another cannot be found.")


def test_the_life_of_a_topic(cluster: httpx.Client) -> None:
    name = f"t-{uuid.uuid4()}"
    configs = [{"name": "cleanup.policy", "value": "compact"}]
    made = cluster.post("/topics", json={"topic_name": name, "partitions_count": 2, "configs": configs})
    assert made.status_code == 201
    assert (made.json()["partitions_count"], made.json()["replication_factor"]) == (2, 1)
    assert made.headers["location"] == made.json()["metadata"]["self"]
    again = cluster.post("/topics", json={"topic_name": name})
    assert (again.status_code, again.json()["error_code"]) == (400, 40002)
    assert cluster.patch(f"/topics/{name}", json={"partitions_count": 3}).json()["partitions_count"] == 3
    partitions = cluster.get(f"/topics/{name}/partitions").json()["data"]
    assert [each["partition_id"] for each in partitions] == [0, 1, 2]
    replica = cluster.get(partitions[2]["leader"]["related"]).json()
    assert (replica["broker_id"], replica["is_leader"], replica["is_in_sync"]) == (0, True, True)
    assert cluster.get(f"/topics/{name}/partitions/-/reassignment").json()["data"] == []
    assert cluster.delete(f"/topics/{name}").status_code == 204
    gone = cluster.get(f"/topics/{name}")
    assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)


def test_settings_of_a_topic(cluster: httpx.Client, topic: str) -> None:
    path = f"/topics/{topic}/configs"
    one = cluster.get(f"{path}/retention.ms").json()
    assert (one["value"], one["is_default"], one["source"]) == ("604800000", True, "DEFAULT_CONFIG")
    assert cluster.put(f"{path}/retention.ms", json={"value": "1000"}).status_code == 204
    one = cluster.get(f"{path}/retention.ms").json()
    assert (one["value"], one["is_default"], one["source"]) == ("1000", False, "DYNAMIC_TOPIC_CONFIG")
    changes = [{"name": "retention.ms", "operation": "DELETE"}, {"name": "segment.bytes", "value": "2000000"}]
    assert cluster.post(f"{path}:alter", json={"data": changes}).status_code == 204
    found = {each["name"]: each["value"] for each in cluster.get(path).json()["data"]}
    assert (found["retention.ms"], found["segment.bytes"]) == ("604800000", "2000000")
    assert cluster.delete(f"{path}/segment.bytes").status_code == 204
    wrong = cluster.put(f"{path}/retention.ms", json={"value": "soon"})
    assert wrong.status_code == 400
    assert "soon" in wrong.json()["message"]
    assert cluster.get(f"{path}/nothing").status_code == 404
    assert cluster.get("/brokers/0/configs").json()["data"][0]["kind"] == "KafkaBrokerConfig"


def lines(answer: httpx.Response) -> list[dict[str, object]]:
    return [json.loads(line) for line in answer.text.splitlines()]


def test_writes_a_record(cluster: httpx.Client, broker: Broker, topic: str) -> None:
    record = {
        "partition_id": 1,
        "key": {"type": "STRING", "data": "k"},
        "value": {"type": "JSON", "data": {"a": 1}},
        "headers": [{"name": "h", "value": "aGVsbG8="}],
        "timestamp": "2026-01-01T12:00:00Z",
    }
    [written] = lines(cluster.post(f"/topics/{topic}/records", json=record))
    assert (written["error_code"], written["partition_id"], written["offset"]) == (200, 1, 0)
    assert written["timestamp"] == "2026-01-01T12:00:00.000Z"
    assert (written["key"], written["value"]) == ({"type": "STRING", "size": 1}, {"type": "JSON", "size": 7})
    [found] = broker.records(topic, 1)
    assert (bytes(found.key or b""), bytes(found.value or b""), found.timestamp) == (
        b"k",
        b'{"a":1}',
        1767268800000,
    )
    assert list(found.headers) == [("h", b"hello")]


def test_a_stream_of_records(cluster: httpx.Client, broker: Broker, topic: str) -> None:
    """The stream is split anywhere, even inside a character."""
    values = ["ä" * 10, "}{", "end"]
    data = b"".join(
        json.dumps(
            {"partition_id": 0, "value": {"type": "STRING", "data": each}}, ensure_ascii=False
        ).encode()
        for each in values
    )
    answer = cluster.post(
        f"/topics/{topic}/records",
        content=(data[at : at + 7] for at in range(0, len(data), 7)),
        headers={"Content-Type": "application/json"},
    )
    assert [each["offset"] for each in lines(answer)] == [0, 1, 2]
    assert [bytes(record.value or b"").decode() for record in broker.records(topic, 0)] == values


@pytest.mark.parametrize(
    ("body", "codes"),
    [
        ('{"value":{"type":"BINARY","data":"%"}}{"value":{"type":"STRING","data":"a"}}', [42203, 200]),
        ('{"value":{"type":"XML","data":"a"}}', [400]),
        ('{"value":1}', [400]),
        ('{"value":{"type":"STRING","data":"a"}}[', [200, 400]),
        ('{"value":', [400]),
        ('{"partition_id":9,"value":{"type":"STRING","data":"a"}}', [40402]),
        ('{"timestamp":"soon","value":{"type":"STRING","data":"a"}}', [400]),
    ],
)
def test_a_bad_record_does_not_stop_the_good_ones(
    cluster: httpx.Client, topic: str, body: str, codes: list[int]
) -> None:
    answer = cluster.post(
        f"/topics/{topic}/records", content=body, headers={"Content-Type": "application/json"}
    )
    assert [each["error_code"] for each in lines(answer)] == codes


def test_groups_and_their_lag(cluster: httpx.Client, broker: Broker, topic: str) -> None:
    for _ in range(3):
        broker.produce(topic, b"1", partition=0)
    group = f"g-{uuid.uuid4()}"
    config = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "earliest",
    }
    consumer = KafkaConsumer({**config, "enable.auto.commit": False, "client.id": "reader"})
    try:
        consumer.subscribe([topic])
        first = None
        while first is None:
            first = consumer.poll(0.2)
        consumer.commit(first, asynchronous=False)
        path = f"/consumer-groups/{group}"
        wait_until(lambda: cluster.get(path).json()["state"] == "STABLE", "the group is stable")
        summary = cluster.get(f"{path}/lag-summary").json()
        assert (summary["max_lag"], summary["total_lag"], summary["max_lag_client_id"]) == (2, 2, "reader")
        lag = cluster.get(f"{path}/lags/{topic}/partitions/0").json()
        assert (lag["current_offset"], lag["log_end_offset"], lag["lag"]) == (1, 3, 2)
        [member] = cluster.get(f"{path}/consumers").json()["data"]
        assigned = cluster.get(member["assignments"]["related"]).json()["data"]
        assert [each["partition_id"] for each in assigned] == [0, 1]
        listed = cluster.get("/consumer-groups").json()["data"]
        assert group in [each["consumer_group_id"] for each in listed]
    finally:
        consumer.close()
    assert cluster.get("/consumer-groups/nobody").status_code == 404


def test_the_openapi_document_has_every_route(http: httpx.Client) -> None:
    paths = http.get("/openapi.json").json()["paths"]
    assert {"/topics/{topic}", "/consumers/{group}", "/v3/clusters/{cluster}/topics/{topic}/records"} <= set(
        paths
    )
    described = [
        each
        for path, methods in paths.items()
        if path not in ("/", "/openapi.json")
        for each in methods.values()
    ]
    assert all(each["summary"] for each in described)
