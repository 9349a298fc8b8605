"""The v3 paths, through a real broker."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer as KafkaConsumer

from ottla.http.background import InBackground
from ottla.rest.server import RestProxy
from ottla.rest.settings import RestSettings
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
        ('{"records":[{"value":{"type":"STRING","data":"a"}}]}', [400]),
        ('{"valeu":{"type":"STRING","data":"a"}}{"value":{"type":"STRING","data":"a"}}', [400, 200]),
        ('{"value":{"type":"STRING","dta":"a"}}', [400]),
        ('{"value":{"type":"STRING"}}', [400]),
        ('{"value":{"type":"STRING","data":"a","schema_id":1}}', [400]),
        ('{"headers":[{"nam":"a"}],"value":{"type":"STRING","data":"a"}}', [422]),
        ('{"partition_id":"0","value":{"type":"STRING","data":"a"}}', [200]),
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


def test_a_batch_of_records(cluster: httpx.Client, broker: Broker, topic: str) -> None:
    good = {"partition_id": 0, "value": {"type": "STRING", "data": "a"}}
    entries = [
        {"id": "1", **good},
        {"id": "bad_2", "partition_id": 0, "value": {"type": "BINARY", "data": "%"}},
        {"id": "three-3", **good},
    ]
    answer = cluster.post(f"/topics/{topic}/records:batch", json={"entries": entries})
    assert answer.status_code == 207
    body = answer.json()
    assert [(each["id"], each["offset"], each["topic_name"]) for each in body["successes"]] == [
        ("1", 0, topic),
        ("three-3", 1, topic),
    ]
    assert [(each["id"], each["error_code"]) for each in body["failures"]] == [("bad_2", 42203)]
    assert len(broker.records(topic, 0)) == 2


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"entries": []}, 42208),
        ({"entries": [{"id": 1}]}, 42208),
        ({"entries": [{"id": "a b"}]}, 42208),
        ({"entries": [{"id": "x" * 81}]}, 42208),
        ({"entries": [{"id": "a"}, {"id": "a"}]}, 42208),
        ({"entries": [{"id": str(each)} for each in range(11)]}, 42208),
        ({"entries": [{"id": "a", "valu": 1}]}, 422),
        ({"records": []}, 422),
        (None, 42206),
    ],
)
def test_a_batch_that_is_refused_as_a_whole(cluster: httpx.Client, topic: str, body: Any, code: int) -> None:
    answer = cluster.post(
        f"/topics/{topic}/records:batch",
        content=json.dumps(body),
        headers={"Content-Type": "application/json"},
    )
    assert (answer.status_code, answer.json()["error_code"]) == (422, code)


def test_settings_of_each_broker_and_topic(cluster: httpx.Client, topic: str) -> None:
    brokers = cluster.get("/brokers/-/configs").json()
    assert brokers["kind"] == "KafkaBrokerConfigList"
    assert {each["broker_id"] for each in brokers["data"]} == {0}
    topics = cluster.get("/topics/-/configs").json()
    assert topics["kind"] == "KafkaTopicConfigList"
    own = [each for each in topics["data"] if each["topic_name"] == topic]
    assert {"cleanup.policy", "retention.ms"} <= {each["name"] for each in own}
    [policy] = [each for each in own if each["name"] == "cleanup.policy"]
    assert cluster.get(policy["metadata"]["self"]).json() == policy
    defaults = cluster.get(f"/topics/{topic}/default-configs").json()["data"]
    assert {each["name"] for each in defaults} == {each["name"] for each in own}


def test_alters_the_settings_of_several_topics(cluster: httpx.Client, topic: str) -> None:
    def changed(name: str, setting: str = "retention.ms") -> dict[str, Any]:
        return {"topic_name": name, "configs": [{"name": setting, "value": "1000"}]}

    path, current = "/topics/-/configs:alter", f"/topics/{topic}/configs/retention.ms"
    before = cluster.get(current).json()["value"]
    dry = {"data": [changed(topic)], "validate_only": True}
    assert cluster.post(path, json=dry).status_code == 204
    assert cluster.get(current).json()["value"] == before
    assert cluster.post(path, json={"data": [changed(topic)]}).status_code == 204
    assert cluster.get(current).json()["value"] == "1000"
    mixed = cluster.post(path, json={"data": [changed("nothing"), changed(topic, "retention.years")]})
    assert mixed.status_code == 207
    assert [(each["topic_name"], each["error_code"]) for each in mixed.json()["failures"]] == [
        ("nothing", 40403),
        (topic, 404),
    ]


def test_partition_offsets(cluster: httpx.Client, broker: Broker, topic: str) -> None:
    broker.produce(topic, b"1", partition=1)
    found = cluster.get(f"/topics/{topic}/partitions/1/offset").json()
    assert (found["kind"], found["earliest_offset"], found["latest_offset"]) == (
        "KafkaPartitionWithOffsets",
        0,
        1,
    )
    wrong = cluster.get(f"/topics/{topic}/partitions/1/offset", params={"offset_type": "latest"})
    assert (wrong.status_code, wrong.json()["message"]) == (400, "offset_type:latest is invalid")
    assert cluster.get(f"/topics/{topic}/partitions/7/offset").status_code == 404


def test_long_lists_come_in_pages(cluster: httpx.Client, topic: str) -> None:
    everything = cluster.get(f"/topics/{topic}/configs").json()
    assert everything["metadata"]["next"] is None
    url: str | None = f"/topics/{topic}/configs?page_size=7"
    pages = []
    while url is not None:
        page = cluster.get(url).json()
        pages.append(page["data"])
        url = page["metadata"]["next"]
    assert [each for page in pages for each in page] == everything["data"]
    assert {len(page) for page in pages[:-1]} == {7}
    assert cluster.get(f"/topics/{topic}/configs?page_size=many").status_code == 400


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/topics", {"topic_name": "a", "partition_count": 2}),
        ("/topics", {"topic_name": "a", "configs": [{"name": "retention.ms", "val": "1"}]}),
        ("/topics/a/configs:alter", {"data": [{"name": "retention.ms", "value": "1", "op": "DELETE"}]}),
        ("/acls", {"resource_type": "TOPIC", "resource": "a"}),
        ("/acls:batch", {"acls": []}),
    ],
)
def test_unknown_fields_are_refused(cluster: httpx.Client, path: str, body: dict[str, Any]) -> None:
    answer = cluster.post(path, json=body)
    assert (answer.status_code, answer.json()["error_code"]) == (422, 422)
    assert answer.json()["message"].startswith("Unrecognized field: ")


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
        assert cluster.get(assigned[1]["metadata"]["self"]).json() == assigned[1]
        missing = cluster.get(f"{member['assignments']['related']}/{topic}/partitions/7")
        assert missing.status_code == 404
        assert cluster.get(path).json()["is_mixed_consumer_group"] is False
        listed = cluster.get("/consumer-groups").json()["data"]
        assert group in [each["consumer_group_id"] for each in listed]
    finally:
        consumer.close()
    assert cluster.get("/consumer-groups/nobody").status_code == 404


def test_requests_after_an_idle_time() -> None:
    """The broker has closed the proxy's connections, which the next request must not notice."""
    with Broker(config={"connections.max.idle.ms": "300"}) as broker:
        broker.create_topic("t")
        settings = RestSettings({"bootstrap.servers": broker.bootstrap_servers}, port=0)
        with (
            InBackground(lambda: RestProxy(settings), "rest") as running,
            httpx.Client(base_url=running.url, timeout=30) as http,
        ):
            [cluster] = http.get("/v3/clusters").json()["data"]
            path = cluster["metadata"]["self"]
            for number in range(3):
                value = {"type": "STRING", "data": str(number)}
                [written] = lines(http.post(f"{path}/topics/t/records", json={"value": value}))
                assert written["offset"] == number
                for each in (f"{path}/topics", f"{path}/consumer-groups", f"{path}/brokers/0/configs"):
                    assert http.get(each).status_code == 200
                assert http.get("/topics/t").status_code == 200
                wait_until(lambda: open_connections(broker) == 0, "the broker closes idle connections")


def open_connections(broker: Broker) -> int:
    port = f":{int(broker.bootstrap_servers.rpartition(':')[2]):04X}"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return sum(local.endswith(port) and state == "01" for _, local, _, state, *_ in rows)


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


#: The paths of Confluent's OpenAPI document, relative to a cluster, with their methods.
CONFLUENT = """
GET
GET,POST,DELETE /acls
POST /acls:batch
GET /broker-configs
POST /broker-configs:alter
GET,PUT,DELETE /broker-configs/{}
GET /brokers
GET /brokers/{}
GET /brokers/-/configs
GET /brokers/{}/configs
POST /brokers/{}/configs:alter
GET,PUT,DELETE /brokers/{}/configs/{}
GET /brokers/{}/partition-replicas
GET /consumer-groups
GET /consumer-groups/{}
GET /consumer-groups/{}/consumers
GET /consumer-groups/{}/consumers/{}
GET /consumer-groups/{}/consumers/{}/assignments
GET /consumer-groups/{}/consumers/{}/assignments/{}/partitions/{}
GET /consumer-groups/{}/lag-summary
GET /consumer-groups/{}/lags
GET /consumer-groups/{}/lags/{}/partitions/{}
GET,POST /topics
GET,PATCH,DELETE /topics/{}
GET /topics/-/configs
POST /topics/-/configs:alter
GET /topics/{}/configs
POST /topics/{}/configs:alter
GET,PUT,DELETE /topics/{}/configs/{}
GET /topics/{}/default-configs
GET /topics/{}/partitions
GET /topics/{}/partitions/{}
GET /topics/{}/partitions/{}/offset
GET /topics/{}/partitions/{}/reassignment
GET /topics/{}/partitions/{}/replicas
GET /topics/{}/partitions/{}/replicas/{}
GET /topics/-/partitions/-/reassignment
GET /topics/{}/partitions/-/reassignment
POST /topics/{}/records
POST /topics/{}/records:batch
"""


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (method, line.partition(" ")[2])
        for line in CONFLUENT.strip().splitlines()
        for method in line.partition(" ")[0].split(",")
    ],
)
def test_every_path_of_confluents_document_is_answered(cluster: httpx.Client, method: str, path: str) -> None:
    """Nothing has these names. The proxy says so, instead of having no such path or failing."""
    body = {} if method == "GET" else {"json": {}}
    answer = cluster.request(method, path.replace("{}", "7"), **body)
    assert answer.status_code < 500, answer.text
    assert answer.status_code not in (405, 415)
    no_path = cluster.get("/nothing").json()["message"]
    assert answer.status_code != 404 or answer.json()["message"] != no_path
