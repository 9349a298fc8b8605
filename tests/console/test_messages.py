"""Messages in the console: pages, decoding, search, live tail, exports, sending, masks."""

from __future__ import annotations

import csv
import io
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ottla.client.cluster import Cluster
from ottla.client.produce import produce
from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.client.settings import Settings
from ottla.console.messages import search_process
from ottla.console.messages.scanning import Query
from ottla.console.messages.search import Job
from ottla.console.messages.search_process import Search
from ottla.console.settings import ClusterSettings, Mask
from ottla.http.background import InBackground
from ottla.protocol.record_format import Record
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of, write


@pytest.fixture
def topic(broker: Broker, names: Callable[[], str]) -> str:
    name = names()
    broker.create_topic(name, 2)
    return name


def values(found: dict[str, Any]) -> list[Any]:
    return [each["value"] for each in found["messages"]]


def read_back(broker: Broker, topic: str, partition: int, offset: int) -> Any:
    """Read the messages with another client."""
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "check"})
    try:
        consumer.assign([TopicPartition(topic, partition, offset)])
        message = consumer.poll(20)
        assert message is not None
        return message
    finally:
        consumer.close()


def test_the_newest_come_first_and_older_ones_follow_page_by_page(
    broker: Broker, visitor: Visitor, topic: str
) -> None:
    for number in range(60):
        broker.produce(topic, b"%d" % number, partition=number % 2, timestamp=1_700_000_000_000 + number)
    seen: list[int] = []
    query = {"limit": "25"}
    while True:
        found = visitor.json(f"topics/{topic}/messages", **query)
        seen += values(found)
        if not found["next"]:
            break
        query["at"] = found["next"]
    assert seen == list(range(59, -1, -1))
    page = visitor.get(f"topics/{topic}/messages")
    assert "Older messages" in page.text
    assert "2023-11-14 22:13:20.059" in page.text


def test_messages_from_an_offset_and_from_a_time_come_in_order(
    broker: Broker, visitor: Visitor, topic: str
) -> None:
    for number in range(30):
        broker.produce(topic, b"%d" % number, partition=0, timestamp=1_700_000_000_000 + number * 60_000)
    where = f"topics/{topic}/messages"
    found = visitor.json(where, **{"from": "offset", "offset": 20, "partition": 0, "limit": 10})
    assert values(found) == list(range(20, 30))
    assert found["next"] == ""
    found = visitor.json(where, **{"from": "time", "time": "2023-11-14T22:23", "limit": 10})
    assert values(found) == list(range(10, 20))
    found = visitor.json(
        where, **{"from": "time", "time": "2023-11-14T22:23", "limit": 10, "at": found["next"]}
    )
    assert values(found) == list(range(20, 30))
    assert values(visitor.json(where, **{"from": "oldest", "limit": 10})) == list(range(10))
    assert visitor.get(where, **{"from": "time", "time": "yesterday"}).status_code == 400


def test_every_kind_of_bytes_is_shown_as_what_it_is(broker: Broker, visitor: Visitor, topic: str) -> None:
    registry = SchemaRegistry(
        RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    )
    avro = '{"type":"record","name":"Order","fields":[{"name":"id","type":"int"}]}'
    number = registry.register(f"{topic}-value", Schema(avro))
    proto = registry.register(
        f"{topic}-proto", Schema('syntax = "proto3"; message P { string name = 1; }', "PROTOBUF")
    )
    schema = registry.register(f"{topic}-json", Schema('{"type":"object"}', "JSON"))
    registry.close()

    def framed(schema_id: int, payload: bytes) -> bytes:
        return b"\0" + schema_id.to_bytes(4, "big") + payload

    written = [
        (b'{"a": [1, 2]}', "json", {"a": [1, 2]}),
        ("žluťoučký".encode(), "text", "žluťoučký"),
        (msgspec.msgpack.encode({"m": [1, "x"]}), "messagepack", {"m": [1, "x"]}),
        (framed(number, b"\x54"), "schema", {"id": 42}),
        (framed(proto, b"\0\x0a\x03Ann"), "schema", {"name": "Ann"}),
        (framed(schema, b'{"b": true}'), "schema", {"b": True}),
        (b"\x00\x01\xff", "binary", "00 01 ff"),
        (None, "null", None),
        (b"", "text", ""),
    ]
    for index, (data, _, _) in enumerate(written):
        broker.produce(topic, data, key=b"k", headers=[("h", b"v")], timestamp=1_700_000_000_000 + index)
    found = visitor.json(f"topics/{topic}/messages", **{"from": "oldest"})["messages"]
    assert [(each["value_format"], each["value"]) for each in found] == [each[1:] for each in written]
    assert found[0]["headers"] == [["h", "v"]]
    page = visitor.get(f"topics/{topic}/messages")
    assert "tombstone" in page.text


def test_a_large_message_is_cut_on_the_page_and_whole_in_json(
    broker: Broker, visitor: Visitor, topic: str
) -> None:
    broker.produce(topic, b"x" * 300_000)
    page = visitor.get(f"topics/{topic}/messages")
    assert len(page.text) < 150_000
    assert "200,000 more characters" in page.text
    assert len(visitor.json(f"topics/{topic}/messages")["messages"][0]["value"]) == 300_000


def test_internal_topics_are_decoded(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    group = names()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": group})
    producer.init_transactions(20)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0)], asynchronous=False)
    consumer.close()
    found = visitor.json("topics/__consumer_offsets/messages", limit=500)["messages"]
    mine = [each for each in found if each["key"]["data"].get("group") == group]
    assert {each["value_format"] for each in mine} == {"internal"}
    states = visitor.json("topics/__transaction_state/messages")["messages"]
    assert any(each["key"]["data"]["transactionalId"] == group for each in states)


def test_aborted_transactions_are_left_out_on_request(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "transactional.id": names()})
    producer.init_transactions(20)
    for text, ends in (("kept", producer.commit_transaction), ("aborted", producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(topic, text, partition=0)
        producer.flush(20)
        ends(20)
    assert set(values(visitor.json(f"topics/{topic}/messages"))) == {"kept", "aborted"}
    assert values(visitor.json(f"topics/{topic}/messages", committed="1")) == ["kept"]


# -- search --


def events(http: httpx.Client, path: str, **query: Any) -> Iterator[tuple[str, str]]:
    with http.stream("GET", path, params=query, headers={"Accept": "text/event-stream"}) as answer:
        assert answer.status_code == 200, answer.read()
        name = ""
        for line in answer.iter_lines():
            kind, _, rest = line.partition(": ")
            if kind == "event":
                name = rest
            elif kind == "data":
                yield name, rest


def search(visitor: Visitor, topic: str, **query: Any) -> tuple[list[str], str]:
    """Return the offsets found, and the reason for the end."""
    offsets, end = [], ""
    for name, data in events(visitor.http, f"/clusters/local/topics/{topic}/messages/search", **query):
        if 'data-offset="' in data:
            offsets.append(data.partition('data-offset="')[2].partition('"')[0])
        if name in ("end", "failed"):
            end = data
    return offsets, end


def found_by(broker: Broker, topic: str, ranges: dict[int, tuple[int, int]], **query: Any) -> list[str]:
    """Run the search process's code without the process."""
    cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})
    job = Job(cluster, topic, ranges, Query(**query), 500)
    said: list[dict[str, Any]] = []
    Search(json.loads(job.line()), said.append).run()
    return [f"{each['hit']['partition']}-{each['hit']['offset']}" for each in said if "hit" in each]


def test_a_search_finds_texts_expressions_and_headers(broker: Broker, topic: str) -> None:
    rows = [{"id": number, "name": f"Customer {number}", "amount": number / 2} for number in range(5000)]
    write(broker, topic, [json.dumps(each).encode() for each in rows], partition=1)
    broker.produce(topic, b"plain", headers=[("trace", b"abc-123")], key=b"needle-key")
    everything = {0: (0, 1), 1: (0, 5000)}

    def found(text: str, **query: Any) -> list[str]:
        return found_by(broker, topic, everything, text=text, **query)

    assert found("customer 4711") == ["1-4711"]
    assert found("customer 4711", ignore_case=False) == []
    assert found(r"Customer 47\d\d", mode="regex") == [f"1-{n}" for n in range(4700, 4800)]
    assert found("value.amount > 2499 and value.id % 2 == 1", mode="expression") == ["1-4999"]
    assert found("value->amount > 2499 AND id % 2 = 1", mode="sql") == ["1-4999"]
    assert found("name LIKE 'Customer 499_' AND id IN (4990, 17)", mode="sql") == ["1-4990"]
    assert found("abc-1") == ["0-0"]
    assert found("abc-1", places=("value",)) == []
    assert found("needle", places=("key",)) == ["0-0"]
    assert found('"id":17,') == ["1-17"]
    assert found("", places=("key",))[:2] == ["0-0", "1-0"]


def test_a_search_reports_its_progress_and_its_end(broker: Broker, visitor: Visitor, topic: str) -> None:
    write(broker, topic, [b"Customer %d" % number for number in range(2000)], partition=1)
    narrowed = {"from": "offset", "offset": 1500, "partition": 1}
    assert search(visitor, topic, q="Customer 3", **narrowed) == ([], "500 messages searched, 0 found.")
    offsets, end = search(visitor, topic, q="customer")
    assert len(offsets) == 500
    assert "stopped there" in end


RECORDS = st.lists(
    st.tuples(
        st.integers(0, 2), st.integers(0, 30), st.booleans()
    ),  # partition, seconds until the next, a hit
    max_size=40,
)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS, st.integers(1, 7), st.integers(1, 5), st.integers(1, 12))
def test_a_search_from_the_end_finds_the_hits_of_a_full_scan_newest_first(
    broker: Broker,
    names: Callable[[], str],
    monkeypatch: pytest.MonkeyPatch,
    records: list[tuple[int, int, bool]],
    batch_size: int,
    width: int,
    limit: int,
) -> None:
    name = names() + uuid.uuid4().hex
    broker.create_topic(name, 3)
    now, ends, hits = 1_700_000_000_000, [0, 0, 0], []
    by_partition: list[list[Record]] = [[], [], []]
    for partition, later, is_hit in records:
        now += later
        by_partition[partition].append(Record(0, now, None, b"needle" if is_hit else b"hay"))
        hits += [(now, partition, ends[partition])] if is_hit else []
        ends[partition] += 1
    with closing(
        Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
    ) as client:
        for partition, written in enumerate(by_partition):
            for start in range(0, len(written), batch_size):
                produce(client, name, written[start : start + batch_size], partition)
    monkeypatch.setattr(search_process, "_FIRST_WIDTH", width)
    expected = sorted(hits, key=lambda each: (-each[0], each[1], -each[2]))
    cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})
    found: list[tuple[int, int, int]] = []
    bounds = {number: (0, end) for number, end in enumerate(ends)}
    while True:
        job = Job(cluster, name, bounds, Query("needle"), limit, newest_first=True)
        said: list[dict[str, Any]] = []
        running = Search(json.loads(job.line()), said.append)
        running.run()
        page = [each["hit"] for each in said if "hit" in each]
        found += [(each["timestamp"], each["partition"], each["offset"]) for each in page]
        if not running.next:
            break
        assert len(page) == limit
        bounds = {number: (0, running.next.get(number, 0)) for number in bounds}
    assert found == expected


def test_a_search_from_the_end_reads_only_the_windows_it_needs(broker: Broker, topic: str) -> None:
    """Hits near the end come before the beginning is read, also if one partition has none."""
    for partition, value in ((0, b"needle"), (1, b"hay")):
        for start in range(0, 20_000, 1000):
            write(broker, topic, [value] * 1000, partition=partition, timestamp=1_700_000_000_000 + start)
    cluster = ClusterSettings("local", {"bootstrap.servers": broker.bootstrap_servers})
    job = Job(cluster, topic, {0: (0, 20_000), 1: (0, 20_000)}, Query("needle"), 50, newest_first=True)
    running = Search(json.loads(job.line()), lambda line: None)
    running.run()
    assert running.found == 50
    assert running.seen == 2000
    assert running.next == {0: 19_950, 1: 19_000}


def test_what_cannot_be_searched_for_is_said(visitor: Visitor, topic: str) -> None:
    page = visitor.get(f"topics/{topic}/messages", q="(", mode="regex")
    assert page.status_code == 400
    assert "This is not a valid regular expression" in page.text
    page = visitor.get(f"topics/{topic}/messages", q="SELECT 1", mode="sql")
    assert page.status_code == 400
    assert "Only a condition goes here" in page.text
    page = visitor.get(f"topics/{topic}/messages", q="__import__('os')", mode="expression")
    assert "There are only these functions" in page.text


def test_a_search_is_answered_in_json_too(broker: Broker, visitor: Visitor, topic: str) -> None:
    write(broker, topic, [b"Customer %d" % number for number in range(200)], partition=1)
    write(broker, topic, [b"nobody"] * 20, partition=0)
    where = f"topics/{topic}/messages"
    hits = ["Customer 17", *(f"Customer 17{n}" for n in range(10))]
    assert values(visitor.json(where, q="customer 17", **{"from": "oldest"})) == hits
    assert values(visitor.json(where, q="customer 17")) == hits[::-1]
    assert len(values(visitor.json(where, q="customer", limit="25"))) == 25
    assert values(visitor.json(where, q="somebody")) == []
    wrong = visitor.get(f"{where}.json", q="(", mode="regex")
    assert wrong.status_code == 400
    assert "This is not a valid regular expression" in wrong.json()["message"]


def test_a_search_ends_with_the_visitor(broker: Broker, visitor: Visitor, topic: str) -> None:
    """Closing the page ends a regular expression that would never finish."""
    write(broker, topic, [b"a" * 5000 + b"!"] * 50, partition=0)
    before = threading.active_count()
    query = {"q": r"^(a|aa)+$", "mode": "regex"}
    where = f"/clusters/local/topics/{topic}/messages/search"
    with visitor.http.stream("GET", where, params=query) as answer:
        assert answer.status_code == 200
        while not _searching():
            time.sleep(0.02)
    deadline = time.monotonic() + 20
    while _searching() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _searching()
    assert threading.active_count() <= before + 1


def _searching() -> list[str]:
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = each.read_bytes().split(b"\0")
            parent = each.with_name("stat").read_text().rpartition(")")[2].split()[1]
        except OSError:
            continue
        if b"ottla.console.messages.search_process" in words and int(parent) == os.getpid():
            found.append(each.parent.name)
    return found


def test_new_messages_arrive_while_one_looks(broker: Broker, visitor: Visitor, topic: str) -> None:
    broker.produce(topic, b"before")
    arrived = events(visitor.http, f"/clusters/local/topics/{topic}/messages/tail")
    assert "Waiting for messages" in next(arrived)[1]
    broker.produce(topic, b"later")
    seen = ""
    for name, data in arrived:
        seen += data
        if name == "progress":
            break
    assert "later" in seen
    assert "before" not in seen
    arrived.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("mode", "condition", "wrong"),
    [
        ("text", "enough-of", None),
        ("sql", "value->n > 1", "value >>"),
        ("regex", r"enough-\w+", "("),
        ("expression", "value.n > 1", "value >>"),
    ],
)
def test_of_new_messages_those_arrive_for_which_a_condition_holds(
    broker: Broker, visitor: Visitor, topic: str, mode: str, condition: str, wrong: str | None
) -> None:
    where = f"/clusters/local/topics/{topic}/messages/tail"
    arrived = events(visitor.http, where, q=condition, mode=mode)
    assert "Waiting for messages" in next(arrived)[1]
    write(
        broker, topic, [b'{"n": 1, "name": "too-little"}', b'{"n": 2, "name": "enough-of-it"}'], partition=0
    )
    seen = ""
    for name, data in arrived:
        seen += data
        if name == "progress":
            break
    assert "enough-of-it" in seen
    assert "too-little" not in seen
    arrived.close()  # type: ignore[attr-defined]
    if wrong is not None:
        assert visitor.http.get(where, params={"q": wrong, "mode": mode}).status_code == 400


# -- files --


@pytest.mark.parametrize("kind", ["csv", "json", "jsonl", "parquet"])
def test_messages_are_exported(broker: Broker, visitor: Visitor, topic: str, kind: str) -> None:
    write(broker, topic, [b'{"n": %d}' % number for number in range(1000)], partition=0, key=b"=1+1")
    answer = visitor.get(f"topics/{topic}/messages/export", format=kind, **{"from": "oldest"})
    assert answer.status_code == 200
    assert f'filename="{topic}.{kind}"' in answer.headers["content-disposition"]
    if kind in ("json", "jsonl"):
        rows = answer.json() if kind == "json" else [json.loads(line) for line in answer.text.splitlines()]
        assert [row["value"]["n"] for row in rows] == list(range(1000))
    elif kind == "csv":
        table = list(csv.DictReader(io.StringIO(answer.text)))
        assert [json.loads(row["value"])["n"] for row in table] == list(range(1000))
        assert table[0]["key"] == "'=1+1"  # a spreadsheet does not evaluate it
    else:
        pq = pytest.importorskip("pyarrow.parquet")
        table = pq.read_table(io.BytesIO(answer.content)).to_pylist()
        assert [json.loads(row["value"])["n"] for row in table] == list(range(1000))
    where = f"topics/{topic}/messages/export"
    assert len(visitor.get(where, format="json", q='"n": 77', count=3).json()) == 3
    assert len(visitor.get(where, format="json", limit=10).json()) == 10
    assert visitor.get(where, format="json", q="nothing has this").json() == []


# -- sending --


def test_a_message_is_sent_as_the_form_says(broker: Broker, visitor: Visitor, topic: str) -> None:
    page = visitor.submit(
        f"topics/{topic}/produce",
        "/produce",
        key="order-1",
        value='{"total": 3}',
        value_kind="json",
        headers="trace: 17\nfrom: console",
        partition="1",
    )
    assert f"Sent to partition 1 of &#39;{topic}&#39;, at offset 0." in page.text
    message = read_back(broker, topic, 1, 0)
    assert (message.key(), message.value()) == (b"order-1", b'{"total": 3}')
    assert message.headers() == [("trace", b"17"), ("from", b"console")]
    page = visitor.submit(f"topics/{topic}/produce", "/produce", value="{", value_kind="json")
    assert page.status_code == 400
    assert "Value: That is not JSON" in page.text
    visitor.submit(f"topics/{topic}/produce", "/produce", key="order-1", value_null="1", partition="0")
    assert read_back(broker, topic, 0, 0).value() is None


def test_a_message_is_sent_with_the_latest_schema(broker: Broker, visitor: Visitor, topic: str) -> None:
    registry = SchemaRegistry(
        RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    )
    number = registry.register(
        f"{topic}-value", Schema('{"type":"record","name":"R","fields":[{"name":"n","type":"int"}]}')
    )
    registry.close()
    fields = {"value": '{"n": 21}', "value_kind": "schema", "partition": "0"}
    visitor.submit(f"topics/{topic}/produce", "/produce", **fields)
    assert read_back(broker, topic, 0, 0).value() == b"\0" + number.to_bytes(4, "big") + b"\x2a"
    page = visitor.submit(f"topics/{topic}/produce", "/produce", **{**fields, "value": '{"n": "x"}'})
    assert "JSON does not fit the schema" in text_of(page)


def test_a_message_is_sent_again_as_the_same_bytes(
    broker: Broker, visitor: Visitor, topic: str, names: Callable[[], str]
) -> None:
    target = names()
    broker.create_topic(target)
    broker.produce(topic, b"\xff\x00raw", key=b"\x01", headers=[("a", None), ("a", b"2")])
    plan = visitor.submit(f"topics/{topic}/messages", "/resend", target=target)
    assert "1 message more, of 6 bytes" in plan.text
    page = visitor.confirm(plan, "/resend")
    assert "Sent to partition 0" in page.text
    message = read_back(broker, target, 0, 0)
    assert (message.key(), message.value()) == (b"\x01", b"\xff\x00raw")
    assert message.headers() == [("a", None), ("a", b"2")]
    edited = visitor.get(f"topics/{topic}/produce", partition=0, offset=0)
    assert visitor.form(edited, "/produce").fields["value"] == "/wByYXc="


# -- masks --


@pytest.mark.parametrize("offset", ["9" * 30, "-1", "x", ""])
def test_a_message_that_cannot_be_named_is_not_sent_again(visitor: Visitor, topic: str, offset: str) -> None:
    given = {"csrf": visitor.token(), "partition": "0", "offset": offset}
    answer = visitor.http.post(f"/clusters/local/topics/{topic}/resend", data=given)
    assert (answer.status_code, "The message is missing" in answer.text) == (400, True)
    given = {"csrf": visitor.token(), "partition": offset or "none", "value": "v"}
    answer = visitor.http.post(f"/clusters/local/topics/{topic}/produce", data=given)
    assert (answer.status_code, "There is no partition" in answer.text) == (400, True)


def test_masked_fields_are_hidden_on_pages_in_searches_and_in_exports(
    broker: Broker, open_console: Callable[..., InBackground], topic: str
) -> None:
    running = open_console(masks=(Mask((topic,), ("email", "card.number", "headers.token")),))
    secret = {"name": "Ann", "email": "ann@example.org", "card": {"number": "4711", "kind": "x"}}
    broker.produce(topic, json.dumps(secret).encode(), headers=[("token", b"s3cret"), ("other", b"seen")])
    broker.produce(topic, b"ann@example.org as plain text")
    with Visitor(running.url) as visitor:
        first, second = visitor.json(f"topics/{topic}/messages", **{"from": "oldest"})["messages"]
        assert first["value"] == {"name": "Ann", "email": "•••", "card": {"number": "•••", "kind": "x"}}
        assert dict(first["headers"]) == {"token": "•••", "other": "seen"}
        assert second["value"] == "•••"
        page = visitor.get(f"topics/{topic}/messages")
        assert "hidden from you" in page.text
        for each in (page, visitor.get(f"topics/{topic}/messages/export", format="csv")):
            assert "ann@example" not in each.text
            assert "4711" not in each.text
            assert "s3cret" not in each.text
        assert search(visitor, topic, q="example.org")[0] == []
        assert search(visitor, topic, q="value.card.number == '4711'", mode="expression")[0] == []
        assert search(visitor, topic, q="value->card->number = '4711'", mode="sql")[0] == []
        assert search(visitor, topic, q="Ann")[0] == ["0-0"]
        refused = visitor.http.post(
            f"/clusters/local/topics/{topic}/resend",
            data={"csrf": visitor.token(), "partition": 0, "offset": 0, "target": "elsewhere"},
        )
        assert refused.status_code == 403
        assert "are masked" in refused.text
