"""The v2 paths, through a real broker."""

from __future__ import annotations

import base64
import json
import uuid
from typing import Any

import httpx
import pytest

from ottla.testing import Broker

JSON = "application/vnd.kafka.json.v2+json"
BINARY = "application/vnd.kafka.binary.v2+json"
V2 = "application/vnd.kafka.v2+json"


def produce(http: httpx.Client, path: str, *records: dict[str, Any], kind: str = JSON) -> httpx.Response:
    return http.post(path, content=json.dumps({"records": records}), headers={"Content-Type": kind})


class Consumer:
    def __init__(self, http: httpx.Client, kind: str = "json", **options: str) -> None:
        self.http = http
        self.group = f"g-{uuid.uuid4()}"
        given = {"format": kind, "auto.offset.reset": "earliest", **options}
        made = http.post(f"/consumers/{self.group}", json=given)
        assert made.status_code == 200, made.text
        self.base = made.json()["base_uri"]
        self.accept = f"application/vnd.kafka.{kind}.v2+json"

    def post(self, path: str, body: Any) -> httpx.Response:
        return self.http.post(f"{self.base}{path}", json=body)

    def poll(self, **query: Any) -> httpx.Response:
        return self.http.get(f"{self.base}/records", params=query, headers={"Accept": self.accept})

    def read(self, count: int) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = []
        while len(found) < count:
            answer = self.poll()
            assert answer.status_code == 200, answer.text
            found += answer.json()
        return found


class TestTopics:
    def test_lists_and_describes(self, http: httpx.Client, topic: str) -> None:
        assert topic in http.get("/topics").json()
        answer = http.get(f"/topics/{topic}", headers={"Accept": V2})
        assert answer.headers["content-type"].startswith(V2)
        described = answer.json()
        assert described["name"] == topic
        assert described["configs"]["cleanup.policy"] == "delete", "all settings, not only changed ones"
        assert [each["partition"] for each in described["partitions"]] == [0, 1]
        assert described["partitions"][0]["replicas"] == [{"broker": 0, "leader": True, "in_sync": True}]
        assert http.get(f"/topics/{topic}/partitions/1").json()["leader"] == 0
        assert http.get("/brokers").json() == {"brokers": [0]}

    def test_offsets(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        broker.produce(topic, b"a", partition=1)
        assert http.get(f"/topics/{topic}/partitions/1/offsets").json() == {
            "beginning_offset": 0,
            "end_offset": 1,
        }

    def test_what_is_not_there(self, http: httpx.Client, topic: str) -> None:
        missing = http.get("/topics/nowhere")
        assert (missing.status_code, missing.json()["error_code"]) == (404, 40401)
        missing = http.get(f"/topics/{topic}/partitions/9")
        assert (missing.status_code, missing.json()["error_code"]) == (404, 40402)


class TestProducing:
    def test_json(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        answer = produce(http, f"/topics/{topic}", {"key": "k", "value": {"a": [1, None]}, "partition": 1})
        assert answer.json() == {
            "offsets": [{"partition": 1, "offset": 0, "error_code": None, "error": None}],
            "key_schema_id": None,
            "value_schema_id": None,
        }
        [record] = broker.records(topic, 1)
        assert (bytes(record.key or b""), bytes(record.value or b"")) == (b'"k"', b'{"a":[1,null]}')

    def test_binary(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        value = base64.b64encode(b"\0\xff").decode()
        produce(http, f"/topics/{topic}/partitions/0", {"value": value}, {"value": None}, kind=BINARY)
        assert [record.value and bytes(record.value) for record in broker.records(topic, 0)] == [
            b"\0\xff",
            None,
        ]

    def test_many_records_without_a_key_are_one_batch(self, http: httpx.Client, topic: str) -> None:
        answer = produce(http, f"/topics/{topic}", *({"value": number} for number in range(500))).json()
        assert len({each["partition"] for each in answer["offsets"]}) == 1
        assert [each["offset"] for each in answer["offsets"]] == list(range(500))

    def test_the_same_key_goes_to_the_same_partition_as_with_java(
        self, http: httpx.Client, topic: str
    ) -> None:
        # murmur2 of "a" with quotes is even, of "c" odd, as in Java's partitioner.
        from aiokafka.partitioner import murmur2

        for key in ("a", "b", "c", "d"):
            [found] = produce(http, f"/topics/{topic}", {"key": key, "value": 1}).json()["offsets"]
            assert found["partition"] == (murmur2(json.dumps(key).encode()) & 0x7FFFFFFF) % 2

    def test_a_record_that_cannot_be_written_does_not_stop_the_others(
        self, http: httpx.Client, topic: str
    ) -> None:
        answer = produce(http, f"/topics/{topic}", {"value": 1, "partition": 0}, {"value": 2, "partition": 7})
        good, bad = answer.json()["offsets"]
        assert (good["offset"], good["error_code"]) == (0, None)
        assert (bad["offset"], bad["error_code"]) == (None, 40402)

    @pytest.mark.parametrize(
        ("body", "kind", "status", "code"),
        [
            ("{", JSON, 400, 400),
            ("[]", JSON, 400, 400),
            ("{}", JSON, 422, 422),
            ('{"records": [1]}', JSON, 400, 400),
            ('{"records": []}', JSON, 422, 422),
            ('{"records": [{"valu": 1}]}', JSON, 422, 422),
            ('{"record": [{"value": 1}], "records": [{"value": 1}]}', JSON, 422, 422),
            ("null", JSON, 422, 42206),
            ('{"records": [{"value": "%"}]}', BINARY, 422, 42203),
            ('{"records": [{"value": 1, "partition": "x"}]}', JSON, 400, 400),
            ('{"records": [{"value": 1, "partition": -1}]}', JSON, 422, 422),
            ('{"records": []}', "text/plain", 415, 415),
            ("[" * 100_000, JSON, 400, 400),
        ],
    )
    def test_bad_requests_write_nothing(
        self, http: httpx.Client, broker: Broker, topic: str, body: str, kind: str, status: int, code: int
    ) -> None:
        answer = http.post(f"/topics/{topic}", content=body, headers={"Content-Type": kind})
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)
        assert broker.records(topic, 0) == broker.records(topic, 1) == []

    def test_a_topic_that_is_not_there(self, http: httpx.Client) -> None:
        answer = produce(http, "/topics/nowhere", {"value": 1})
        assert (answer.status_code, answer.json()["error_code"]) == (404, 40401)


class TestConsuming:
    def test_reads_what_was_written_and_commits(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        for number in range(3):
            broker.produce(topic, json.dumps({"n": number}).encode(), key=b'"k"', partition=0)
        consumer = Consumer(http)
        assert consumer.post("/subscription", {"topics": [topic]}).status_code == 204
        assert consumer.read(3) == [
            {"topic": topic, "key": "k", "value": {"n": number}, "partition": 0, "offset": number}
            for number in range(3)
        ]
        assert consumer.http.get(f"{consumer.base}/subscription").json() == {"topics": [topic]}
        assert consumer.http.post(f"{consumer.base}/offsets").status_code == 200
        partitions = {"partitions": [{"topic": topic, "partition": 0}]}
        committed = http.request("GET", f"{consumer.base}/offsets", json=partitions).json()
        assert committed == {"offsets": [{"topic": topic, "partition": 0, "offset": 3, "metadata": ""}]}
        assert http.delete(consumer.base).status_code == 204
        gone = consumer.poll()
        assert (gone.status_code, gone.json()["error_code"]) == (404, 40403)

    def test_what_does_not_fit_comes_with_the_next_request(
        self, http: httpx.Client, broker: Broker, topic: str
    ) -> None:
        for _ in range(5):
            broker.produce(topic, json.dumps("x" * 1000).encode(), partition=0)
        consumer = Consumer(http)
        consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        offsets: list[int] = []
        while len(offsets) < 5:
            records = consumer.poll(max_bytes=2100).json()
            assert len(records) <= 2
            offsets += [record["offset"] for record in records]
        assert offsets == [0, 1, 2, 3, 4]

    def test_only_what_was_answered_is_committed(
        self, http: httpx.Client, broker: Broker, topic: str
    ) -> None:
        for _ in range(4):
            broker.produce(topic, b"1", partition=0)
        consumer = Consumer(http)
        consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        while not (records := consumer.poll(max_bytes=1).json()):
            pass
        assert [record["offset"] for record in records] == [0]
        http.post(f"{consumer.base}/offsets")
        found = http.get(f"{consumer.base}/offsets").json()["offsets"]
        assert [each["offset"] for each in found] == [1]

    def test_positions(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        for number in range(4):
            broker.produce(topic, str(number).encode(), partition=0)
        consumer = Consumer(http)
        partition = {"topic": topic, "partition": 0}
        consumer.post("/assignments", {"partitions": [partition]})
        assert [record["value"] for record in consumer.read(4)] == [0, 1, 2, 3]
        assert consumer.post("/positions", {"offsets": [{**partition, "offset": 2}]}).status_code == 204
        assert [record["value"] for record in consumer.read(2)] == [2, 3]
        consumer.post("/positions/beginning", {"partitions": [partition]})
        assert [record["value"] for record in consumer.read(4)] == [0, 1, 2, 3]
        consumer.post("/positions/end", {"partitions": [partition]})
        broker.produce(topic, b"4", partition=0)
        assert [record["value"] for record in consumer.read(1)] == [4]

    @pytest.mark.parametrize("wrong", [b"no json", b"[" * 950 + b"]" * 950], ids=["text", "deep"])
    def test_a_record_of_another_format_is_named_and_can_be_skipped(
        self, http: httpx.Client, broker: Broker, topic: str, wrong: bytes
    ) -> None:
        for value in (b"1", wrong, b"3"):
            broker.produce(topic, value, partition=0)
        consumer = Consumer(http)
        consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        assert [record["value"] for record in consumer.read(1)] == [1]
        bad = consumer.poll()
        assert (bad.status_code, bad.json()["error_code"]) == (422, 42203)
        assert f"{topic}-0, offset 1" in bad.json()["message"]
        assert consumer.poll().status_code == 422, "it is not lost by itself"
        consumer.post("/positions", {"offsets": [{"topic": topic, "partition": 0, "offset": 2}]})
        assert [record["value"] for record in consumer.read(1)] == [3]

    def test_a_pattern(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        broker.produce(topic, b"1", partition=0)
        consumer = Consumer(http)
        assert consumer.post("/subscription", {"topic_pattern": f"{topic}.*"}).status_code == 204
        assert consumer.read(1)[0]["topic"] == topic

    def test_assignment_and_subscription_exclude_each_other(self, http: httpx.Client, topic: str) -> None:
        assigned, subscribed, by_pattern = Consumer(http), Consumer(http), Consumer(http)
        partitions = {"partitions": [{"topic": topic, "partition": 0}]}
        assert assigned.post("/assignments", partitions).status_code == 204
        assert subscribed.post("/subscription", {"topics": [topic]}).status_code == 204
        assert by_pattern.post("/subscription", {"topic_pattern": topic}).status_code == 204
        exclusive = "Illegal state: Subscription to topics, partitions and pattern are mutually exclusive"
        for answer in (
            assigned.post("/subscription", {"topics": [topic]}),
            assigned.post("/subscription", {"topic_pattern": topic}),
            subscribed.post("/assignments", partitions),
            subscribed.post("/subscription", {"topic_pattern": topic}),
            by_pattern.post("/subscription", {"topics": [topic]}),
            by_pattern.post("/assignments", partitions),
        ):
            assert (answer.status_code, answer.json()) == (409, {"error_code": 40903, "message": exclusive})
        assert assigned.post("/assignments", partitions).status_code == 204, "the same kind again"
        assert http.delete(f"{assigned.base}/subscription").status_code == 204
        assert assigned.post("/subscription", {"topics": [topic]}).status_code == 204

    def test_seeking_an_unassigned_partition(self, http: httpx.Client, topic: str) -> None:
        consumer = Consumer(http)
        consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        partition = {"topic": topic, "partition": 1}
        for path, body in (
            ("/positions", {"offsets": [{**partition, "offset": 0}]}),
            ("/positions", {"timestamps": [{**partition, "timestamp": "2026-01-01T00:00:00Z"}]}),
            ("/positions/beginning", {"partitions": [partition]}),
            ("/positions/end", {"partitions": [partition]}),
        ):
            answer = consumer.post(path, body)
            message = f"Illegal state: No current assignment for partition {topic}-1"
            assert (answer.status_code, answer.json()) == (409, {"error_code": 40903, "message": message})

    def test_seeking_by_time(self, http: httpx.Client, broker: Broker, topic: str) -> None:
        for value, timestamp in ((b"1", 1_000), (b"2", 2_000)):
            broker.produce(topic, value, partition=0, timestamp=timestamp)
        consumer = Consumer(http)
        consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        place = {"topic": topic, "partition": 0, "timestamp": "1970-01-01T00:00:01.500Z"}
        assert consumer.post("/positions", {"timestamps": [place]}).status_code == 204
        assert [record["value"] for record in consumer.read(1)] == [2]

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/subscription", {"topics": ["t"], "topc": 1}),
            ("/assignments", {"partitions": [{"topic": "t", "partition": 0, "offset": 1}]}),
            ("/positions", {"offsets": [{"topic": "t", "partition": 0, "offse": 1}]}),
            ("/offsets", {"offset": []}),
        ],
    )
    def test_unknown_fields_are_refused(self, http: httpx.Client, path: str, body: dict[str, Any]) -> None:
        answer = Consumer(http).post(path, body)
        assert (answer.status_code, answer.json()["error_code"]) == (422, 422)
        assert answer.json()["message"].startswith("Unrecognized field: ")

    @pytest.mark.parametrize(
        ("options", "status", "code"),
        [
            ({"format": "xml"}, 422, 42204),
            ({"auto.offset.reset": "sometimes"}, 422, 42204),
            ({"formt": "json"}, 422, 422),
            ({"consumer.request.timeout.ms": "soon"}, 400, 400),
        ],
    )
    def test_bad_options(self, http: httpx.Client, options: dict[str, str], status: int, code: int) -> None:
        answer = http.post(f"/consumers/g-{uuid.uuid4()}", json=options)
        assert (answer.status_code, answer.json()["error_code"]) == (status, code)

    def test_refusals(self, http: httpx.Client, topic: str) -> None:
        consumer = Consumer(http, name="one")
        again = http.post(f"/consumers/{consumer.group}", json={"name": "one"})
        assert (again.status_code, again.json()["error_code"]) == (409, 40902)
        idle = consumer.poll()
        assert (idle.status_code, idle.json()["error_code"]) == (409, 40903)
        consumer.post("/subscription", {"topics": [topic]})
        both = consumer.post("/assignments", {"partitions": [{"topic": topic, "partition": 0}]})
        assert (both.status_code, both.json()["error_code"]) == (409, 40903)
        other = http.get(f"{consumer.base}/records", headers={"Accept": BINARY})
        assert (other.status_code, other.json()["error_code"]) == (406, 40601)
