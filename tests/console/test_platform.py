"""Schemas, connectors, SQL, the graph and dead letters, with a real registry and a real Connect worker."""

from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla.client.cluster import Cluster
from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.client.settings import Settings
from ottla.console.web.charts import Edge, Node, columns, draw
from ottla.http import Access, HttpServer, Request, Response, Router, json_response
from ottla.http.background import InBackground
from ottla.monitoring.audit.audit_topic import ensure_audit_topic, read_tier_counts, write_entries
from ottla.monitoring.audit.counting import Tier, count_topic
from ottla.monitoring.metrics.text import labels
from ottla.spark.pipelines.metrics import query_lines
from ottla.spark.pipelines.query_progress import QueryProgress
from ottla.testing import Broker
from tests.connect.worker.workers import (
    SINK,
    SOURCE,
    Worker,
    distributed_properties,
    standalone_properties,
    wait_for,
)
from tests.console.browsing import Visitor, text_of, write


class FakeSql:
    """The part of ksqlDB's REST API that the console uses."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.streams_open = 0
        self.state = "RUNNING"
        router = Router()
        router.add("POST", "/ksql", self.ksql, access=Access.ANYONE)
        router.add("GET", "/metrics", self.metrics, access=Access.ANYONE, produces=("text/plain",))
        router.add(
            "POST",
            "/query-stream",
            self.stream,
            access=Access.ANYONE,
            produces=("application/vnd.ksqlapi.delimited.v1",),
        )
        self._server = HttpServer(router, "127.0.0.1", 0)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{self._server.port}"]

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0.2)

    async def ksql(self, request: Request) -> Response:
        text = (await request.json())["ksql"]
        self.statements.append(text)
        answers = {
            "LIST STREAMS;": {"@type": "streams", "streams": [{"name": "ORDERS", "topic": "sql-orders"}]},
            "LIST TABLES;": {"@type": "tables", "tables": []},
            "LIST QUERIES;": {
                "@type": "queries",
                "queries": [{"id": "CTAS_1", "state": self.state, "sinkKafkaTopics": ["sql-totals"]}],
            },
            "EXPLAIN CTAS_1;": {"@type": "queryDescription", "queryDescription": {"sources": ["ORDERS"]}},
        }
        if text.startswith("DROP"):
            return json_response({"message": "There is no such stream."}, 400)
        if text.startswith("INSERT"):
            return json_response([])  # as ksqlDB
        return json_response(
            [answers.get(text, {"@type": "currentStatus", "commandStatus": {"status": "SUCCESS"}})]
        )

    async def metrics(self, request: Request) -> Response:
        """Return metrics like `ottla sql server`."""
        running = QueryProgress("CTAS_1", True, rows_in_per_second=12.0, lag=5, batch_seconds=0.25)
        lines = query_lines([(labels(query="CTAS_1", sink="sql-totals"), running)])
        return Response(200, "".join(f"{line}\n" for line in lines).encode(), "text/plain")

    async def stream(self, request: Request) -> Response:
        sql = (await request.json())["sql"]

        async def lines() -> AsyncIterator[bytes]:
            self.streams_open += 1
            try:
                yield json.dumps(
                    {"queryId": "q", "columnNames": ["A", "B"], "columnTypes": ["INT", "STRING"]}
                ).encode()
                yield b'\n[1,"<b>one</b>"]\n[2,null]\n'
                while "EMIT CHANGES" in sql:
                    await asyncio.sleep(0.05)
                    yield b'[3,"more"]\n'
            finally:
                self.streams_open -= 1

        return Response(200, lines(), "application/vnd.ksqlapi.delimited.v1")


@pytest.fixture(scope="module")
def sql() -> Iterator[FakeSql]:
    made: list[FakeSql] = []

    def make() -> FakeSql:
        made.append(FakeSql())
        return made[0]

    with InBackground(make, "sql"):
        yield made[0]


@pytest.fixture(scope="module")
def worker(broker: Broker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    file = tmp_path_factory.mktemp("connect") / "offsets"
    with Worker(standalone_properties(broker.bootstrap_servers, file)) as running:
        running.wait_until_ready()
        yield running


@pytest.fixture(scope="module")
def console(open_console: Callable[..., InBackground], sql: FakeSql, worker: Worker) -> InBackground:
    return open_console(cluster={"connect": worker.url, "sql": sql.urls[0]})


# -- schemas --

FIRST = '{"type":"record","name":"R","fields":[{"name":"a","type":"int"}]}'
SECOND = (
    '{"type":"record","name":"R","fields":[{"name":"a","type":"int"},{"name":"b","type":"int","default":0}]}'
)
WRONG = '{"type":"record","name":"R","fields":[{"name":"c","type":"string"}]}'


@pytest.fixture
def registry(broker: Broker) -> Iterator[SchemaRegistry]:
    settings = RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    with SchemaRegistry(settings) as client:
        yield client


def test_a_schema_is_checked_before_it_is_registered(
    visitor: Visitor, registry: SchemaRegistry, names: Callable[[], str]
) -> None:
    subject = f"{names()}-value"
    page = visitor.submit("new-schema", "/new-schema", subject=subject, schema=FIRST)
    assert "it is the first one" in page.text
    assert subject not in registry.subjects()
    visitor.send(visitor.form(page, "/new-schema"))
    assert registry.versions(subject) == [1]
    page = visitor.submit("new-schema", "/new-schema", subject=subject, schema=WRONG)
    assert "no: the registry will refuse it" in page.text
    assert "READER_FIELD_MISSING_DEFAULT_VALUE" in page.text
    refused = visitor.send(visitor.form(page, "/new-schema"))
    assert refused.status_code == 400
    page = visitor.submit("new-schema", "/new-schema", subject=subject, schema=SECOND)
    visitor.send(visitor.form(page, "/new-schema"))
    assert registry.versions(subject) == [1, 2]
    page = visitor.submit("new-schema", "/new-schema", subject=subject, schema="{")
    assert page.status_code == 400
    assert visitor.form(page, "/new-schema").fields["schema"].strip() == "{"


def test_versions_are_compared(visitor: Visitor, registry: SchemaRegistry, names: Callable[[], str]) -> None:
    subject = f"{names()}-value"
    for text in (FIRST, SECOND):
        registry.register(subject, Schema(text))
    data = visitor.json(f"schemas/{subject}/versions")
    assert (data["version"], data["against"]) == (2, 1)
    added = [line for kind, line in data["diff"] if kind == "added"]
    assert any('"b"' in line for line in added)
    page = visitor.get(f"schemas/{subject}/versions")
    assert "<ins>" in page.text
    assert [row["version"] for row in visitor.json("schemas", q=subject)["subjects"]] == [2]
    visitor.submit(f"schemas/{subject}/versions", "/compatibility", level="NONE")
    assert visitor.json(f"schemas/{subject}/versions")["compatibility"] == "NONE"
    page = visitor.submit(f"schemas/{subject}/versions", "/delete")
    visitor.send(visitor.form(page, "/delete"), typed=subject)
    assert subject not in registry.subjects()


# -- connectors --


def test_a_connector_is_created_checked_stopped_and_deleted(
    broker: Broker, visitor: Visitor, worker: Worker, names: Callable[[], str], tmp_path: Path
) -> None:
    name, topic = names(), names()
    broker.create_topic(topic)
    file = tmp_path / "lines.txt"
    file.write_text("one\ntwo\n")
    page = visitor.get("new-connector", **{"class": SOURCE})
    form = visitor.form(page, "/new-connector")
    wrong = visitor.send(form, connector_name=name, **{"config:file": str(file)})
    assert wrong.status_code == 400
    assert "topic" in text_of(wrong)
    assert worker.status(name)[0] == ""
    plan = visitor.send(form, connector_name=name, **{"config:file": str(file), "config:topic": topic})
    assert "Nothing has been changed yet." in plan.text
    done = visitor.send(visitor.form(plan, "/new-connector"))
    assert "was configured" in done.text
    worker.wait_until(name, "RUNNING", ["RUNNING"])
    [row] = [each for each in visitor.json("connectors")["connectors"] if each["name"] == name]
    assert (row["type"], row["state"], row["topics"]) == ("source", "RUNNING", [topic])
    assert name in visitor.get("connectors").text
    where = f"connectors/{name}/state"
    for action, state in (("pause", "PAUSED"), ("resume", "RUNNING"), ("stop", "STOPPED")):
        token = visitor.token()
        visitor.http.post(f"/clusters/local/connectors/{name}/act", data={"csrf": token, "action": action})
        worker.wait_until(name, state)
    assert visitor.json(where)["config"]["topic"] == topic
    edited = visitor.get(f"connectors/{name}/edit")
    assert visitor.form(edited, "/new-connector").fields["config:file"] == str(file)
    page = visitor.submit(where, "/delete")
    visitor.send(visitor.form(page, "/delete"), typed=name)
    assert name not in worker.call("GET", "/connectors").body


def test_secrets_of_connectors_are_in_no_page(
    visitor: Visitor, worker: Worker, names: Callable[[], str], tmp_path: Path
) -> None:
    name = names()
    config = {
        "connector.class": SINK,
        "topics": "x",
        "file": str(tmp_path / "out"),
        "a.password": "s3cret-pw",
    }
    worker.call("PUT", f"/connectors/{name}/config", config)
    page = visitor.get(f"connectors/{name}/state")
    assert "a.password" in page.text
    assert "s3cret-pw" not in page.text
    form_page = visitor.get(f"connectors/{name}/edit")
    assert "s3cret-pw" not in form_page.text
    plan = visitor.send(visitor.form(form_page, "/new-connector"), **{"config:file": str(tmp_path / "other")})
    assert "s3cret-pw" not in plan.text
    visitor.send(visitor.form(plan, "/new-connector"))
    kept = worker.call("GET", f"/connectors/{name}/config").body
    assert (kept["a.password"], kept["file"]) == ("s3cret-pw", str(tmp_path / "other"))


def test_what_is_wrong_with_a_setting_of_no_definition_is_shown(
    broker: Broker, open_console: Callable[..., InBackground], names: Callable[[], str], tmp_path: Path
) -> None:
    """For such settings workers return `"definition": null`."""
    properties = standalone_properties(
        broker.bootstrap_servers, tmp_path / "offsets", connector_client_config_override_policy="None"
    )
    with Worker(properties) as running:
        running.wait_until_ready()
        with Visitor(open_console(cluster={"connect": running.url}).url) as visitor:
            form = visitor.form(visitor.get("new-connector", **{"class": SINK}), "/new-connector")
            given = {"config:file": str(tmp_path / "out"), "config:topics": "x"}
            wrong = visitor.send(
                form, connector_name=names(), extra="consumer.override.max.poll.records = 1", **given
            )
            assert wrong.status_code == 400
            assert "does not allow" in text_of(wrong)


def test_a_connector_that_no_worker_has_taken_up_is_shown(
    broker: Broker, open_console: Callable[..., InBackground], names: Callable[[], str], tmp_path: Path
) -> None:
    name = names()
    with Worker(distributed_properties(broker.bootstrap_servers)) as running:
        running.wait_until_ready()
        config = {"connector.class": SINK, "topics": "x", "file": str(tmp_path / "out"), "tasks.max": "1"}
        running.call("PUT", f"/connectors/{name}/config", config)
        running.wait_until(name, "RUNNING", ["RUNNING"])
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        producer.produce(f"{running.config.group_id}-status", key=f"status-connector-{name}", value=None)
        assert producer.flush(30) == 0
        wait_for(lambda: running.call("GET", f"/connectors/{name}/status").status == 404)
        with Visitor(open_console(cluster={"connect": running.url}).url) as visitor:
            shown = visitor.json(f"connectors/{name}/state")
            assert (shown["connector"]["state"], shown["config"]["topics"]) == ("UNASSIGNED", "x")
            [row] = visitor.json("connectors")["connectors"]
            assert (row["name"], row["state"]) == (name, "UNASSIGNED")
            assert visitor.get("connectors/none/state").status_code == 404


def test_a_connect_that_does_not_answer_is_said(open_console: Callable[..., InBackground]) -> None:
    running = open_console(cluster={"connect": "http://127.0.0.1:1"})
    with Visitor(running.url) as visitor:
        page = visitor.get("connectors")
        assert page.status_code == 502
        assert "Connect at http://127.0.0.1:1 cannot be reached" in page.text


# -- SQL --


def test_a_statement_is_run_and_its_answer_shown(visitor: Visitor, sql: FakeSql) -> None:
    page = visitor.submit("sql", "/sql", statement="CREATE STREAM x (a INT) WITH (kafka_topic='x')")
    assert any(each.startswith("CREATE STREAM x") for each in sql.statements)
    assert "SUCCESS" in page.text
    page = visitor.submit("sql", "/sql", statement="DROP STREAM y;")
    assert page.status_code == 400
    assert "There is no such stream." in page.text


def test_rows_of_a_select_stream_in_and_end_with_the_visitor(visitor: Visitor, sql: FakeSql) -> None:
    page = visitor.submit("sql", "/sql", statement="SELECT * FROM orders EMIT CHANGES")
    path = page.text.partition('data-stream="')[2].partition('"')[0].replace("&amp;", "&")
    seen = ""
    with visitor.http.stream("GET", path) as answer:
        for line in answer.iter_lines():
            seen += line
            if "more" in line:
                break
    assert "A INT" in seen
    assert "&lt;b&gt;one" in seen
    deadline = time.monotonic() + 20
    while sql.streams_open and time.monotonic() < deadline:
        time.sleep(0.02)
    assert sql.streams_open == 0


def test_a_link_runs_no_statement_of_its_own(visitor: Visitor, sql: FakeSql) -> None:
    def run() -> list[str]:
        return [
            each for each in sql.statements if each != "LIST QUERIES;"
        ]  # which the console asks by itself

    before = run()
    for text in ("SELECT 1", "DROP STREAM x", "abc.def"):
        assert visitor.get("sql/stream", statement=text).status_code == 403
    assert run() == before


# -- the graph --


def test_the_graph_shows_what_flows_where(broker: Broker, visitor: Visitor, names: Callable[[], str]) -> None:
    topic, group = names(), names()
    broker.create_topic(topic)
    write(broker, topic, [b"x"] * 9)
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 4)], asynchronous=False)
    consumer.close()
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        edges = [(each["source"], each["target"], each["label"]) for each in visitor.json("flow")["edges"]]
        if (f"topic:{topic}", f"group:{group}", "lag 5") in edges:
            break
    assert (f"topic:{topic}", f"group:{group}", "lag 5") in edges
    assert ("topic:sql-orders", "query:CTAS_1", "12 rows/s · lag 5 · 0.2 s a batch") in edges
    assert ("query:CTAS_1", "topic:sql-totals", "") in edges
    assert '<svg class="graph"' in visitor.get("flow").text


def test_columns_go_from_left_to_right_and_a_circle_is_cut() -> None:
    nodes = [Node(each, each, "topic") for each in "abcd"]
    edges = [Edge("a", "b"), Edge("b", "c"), Edge("a", "c"), Edge("c", "d")]
    assert columns(nodes, edges) == {"a": 0, "b": 1, "c": 2, "d": 3}
    round_trip = columns(nodes, [*edges, Edge("d", "a")])
    assert set(round_trip) == set("abcd")
    assert "<script>" not in draw([Node("x", "<script>", "topic", "<script>")], [])
    bad = draw(nodes, [Edge("a", "b", "<script> · <img onerror=x>")])
    assert "<script>" not in bad
    assert "&lt;img onerror=x&gt;" in bad


def test_nodes_stand_beside_what_leads_to_them() -> None:
    """Otherwise lines cross, and labels become unreadable."""
    nodes = [Node(each, each, "topic") for each in ("a", "b", "y", "z")]
    drawing = draw(nodes, [Edge("a", "z", "1/s"), Edge("b", "y", "2/s")])
    lines = re.findall(r'<path class="w0" d="M\d+ (\d+) C.*? (\d+)" marker-end', drawing)
    assert [(one == two) for one, two in lines] == [True, True]


def test_pages_without_their_server_say_what_is_missing(open_console: Callable[..., InBackground]) -> None:
    running = open_console()
    with Visitor(running.url) as visitor:
        for page, option in (("connectors", "--connect"), ("sql", "--sql")):
            answer = visitor.get(page)
            assert answer.status_code == 404
            assert option in answer.text


# -- the count audit --


def test_the_counts_show_lost_records(broker: Broker, visitor: Visitor, names: Callable[[], str]) -> None:
    assert "There are no counts yet" in visitor.get("count-audit").text
    source, copy = names(), names()
    for topic, count in ((source, 5), (copy, 4)):
        broker.create_topic(topic)
        write(broker, topic, [b"x"] * count, timestamp=1_700_000_000_000)
    cluster = Cluster(Settings.from_properties({"bootstrap.servers": broker.bootstrap_servers}))
    ensure_audit_topic(cluster)
    for topic, tier in ((source, Tier("source", 60_000)), (copy, Tier("copy", 60_000, source))):
        write_entries(cluster, list(count_topic(cluster, topic, tier, read_tier_counts(cluster))))
    cluster.close()
    data = visitor.json("count-audit", grace="0")
    [finding] = data["findings"]
    assert (finding["topic"], finding["tier"], finding["before"], finding["missing"]) == (
        source,
        "copy",
        "source",
        1,
    )
    assert {each["tier"]: each["records"] for each in data["tiers"]} == {"source": 5, "copy": 4}
    page = visitor.get("count-audit", grace="0")
    assert "The counts do not balance." in page.text
