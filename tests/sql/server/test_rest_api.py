"""ksqlDB's REST API, for statements that need no Spark."""

from __future__ import annotations

import json
import socket
from contextlib import closing
from typing import Any

import httpx
import pytest
from wsproto import ConnectionType, WSConnection
from wsproto.events import CloseConnection, Request, TextMessage

from ottla.testing import Broker
from tests.sql.server.serving import Served, no_spark, serving, wait_until


def test_statements_are_answered_with_ksqldbs_objects(served: Served) -> None:
    answer = served.done("CREATE STREAM a (x INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);")
    number = answer[0].pop("commandSequenceNumber")
    assert answer == [
        {
            "@type": "currentStatus",
            "statementText": "CREATE STREAM a (x INT) WITH (kafka_topic='a', value_format='JSON', partitions=1);",
            "commandId": "stream/`A`/create",
            "commandStatus": {"status": "SUCCESS", "message": "Stream created", "queryId": None},
            "warnings": [],
        }
    ]
    dropped = served.done("DROP STREAM a DELETE TOPIC;")[0]
    assert dropped["commandId"] == "stream/`A`/drop"
    assert dropped["commandSequenceNumber"] == number + 1


def test_listings(served: Served) -> None:
    streams, tables, topics = served.done("LIST STREAMS; SHOW TABLES; SHOW TOPICS;")
    assert streams["@type"] == "streams"
    assert streams["streams"] == [
        {
            "type": "STREAM",
            "name": "S",
            "topic": "s",
            "keyFormat": "KAFKA",
            "valueFormat": "JSON",
            "isWindowed": False,
        }
    ]
    assert [(each["name"], each["type"]) for each in tables["tables"]] == [("T", "TABLE")]
    assert {"name": "t", "replicaInfo": [1, 1]} in topics["topics"]
    queries, properties, functions = served.done("SHOW QUERIES; SHOW PROPERTIES; SHOW FUNCTIONS;")
    assert (queries["@type"], queries["queries"]) == ("queries", [])
    assert {
        "name": "auto.offset.reset",
        "scope": "KSQL",
        "value": "latest",
        "editable": True,
        "level": "QUERY",
    } in (properties["properties"])
    assert {"name": "UCASE", "type": "SCALAR", "category": ""} in functions["functions"]


def test_describe(served: Served) -> None:
    described = served.done("DESCRIBE t EXTENDED;")[0]
    assert described["@type"] == "sourceDescription"
    facts = described["sourceDescription"]
    assert (facts["type"], facts["topic"], facts["partitions"], facts["replication"]) == ("TABLE", "t", 2, 1)
    double = {"type": "DOUBLE", "fields": None, "memberSchema": None}
    assert facts["fields"] == [
        {"name": "K", "schema": {"type": "STRING", "fields": None, "memberSchema": None}, "type": "KEY"},
        {
            "name": "P",
            "schema": {
                "type": "DECIMAL",
                "fields": None,
                "memberSchema": None,
                "parameters": {"precision": 4, "scale": 2},
            },
        },
        {
            "name": "Q",
            "schema": {
                "type": "STRUCT",
                "memberSchema": None,
                "fields": [
                    {"name": "A", "schema": {"type": "INTEGER", "fields": None, "memberSchema": None}},
                    {"name": "B", "schema": {"type": "MAP", "fields": None, "memberSchema": double}},
                ],
            },
        },
    ]


def test_types_and_assertions(served: Served) -> None:
    created, listed, dropped = served.done("CREATE TYPE point AS STRUCT<x INT>; LIST TYPES; DROP TYPE point;")
    assert (created["commandId"], dropped["commandId"]) == ("type/`POINT`/create", "type/`POINT`/drop")
    assert listed["types"]["POINT"]["fields"][0]["name"] == "X"
    asserted = served.done("ASSERT TOPIC s;")[0]
    assert (asserted["@type"], asserted["topicName"], asserted["exists"]) == ("assert_topic", "s", True)


def test_statements_that_answer_nothing(served: Served) -> None:
    text = "SET 'auto.offset.reset'='earliest'; DEFINE v = 'S'; DESCRIBE ${v}; UNSET 'auto.offset.reset';"
    assert [each["@type"] for each in served.done(text)] == ["sourceDescription"]


def test_properties_and_variables_are_of_one_request(served: Served) -> None:
    shown = served.done(
        "SHOW PROPERTIES; SHOW VARIABLES;",
        streamsProperties={"ksql.streams.auto.offset.reset": "earliest", "ksql.query.pull.max.qps": 7},
        sessionVariables={"a": "b"},
    )
    assert shown[0]["overwrittenProperties"] == ["auto.offset.reset"]
    assert "ksql.query.pull.max.qps" in shown[0]["warnings"][0]["message"]
    assert shown[1]["variables"] == [{"name": "a", "value": "b"}]
    shown = served.done("SHOW PROPERTIES; SHOW VARIABLES;")
    assert (shown[0]["overwrittenProperties"], shown[1]["variables"]) == ([], [])
    refused = served.ksql("SHOW STREAMS;", streamsProperties={"auto.offset.reset": "never"})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40000)


def test_a_statement_that_is_wrong_is_named_with_what_was_done_before_it(served: Served) -> None:
    refused = served.ksql("SHOW STREAMS; DESCRIBE nothing; SHOW TABLES;")
    assert refused.status_code == 400
    error = refused.json()
    assert (error["@type"], error["error_code"]) == ("statement_error", 40001)
    assert error["statementText"] == "DESCRIBE nothing;"
    assert "NOTHING" in error["message"]
    assert [each["@type"] for each in error["entities"]] == ["streams"]
    for wrong in (
        "SELEC 1;",
        "SHOW",
        "CREATE STREAM s (x INT) WITH (kafka_topic='s');",
        "RUN SCRIPT '/etc/passwd';",
    ):
        refused = served.ksql(wrong)
        assert (refused.status_code, refused.json()["error_code"]) == (400, 40001), wrong


@pytest.mark.parametrize("statement", ["SELECT * FROM s;", "PRINT 's';", "SELECT * FROM s EMIT CHANGES;"])
def test_queries_are_sent_to_their_own_endpoint(served: Served, statement: str) -> None:
    refused = served.ksql(statement)
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40002)
    assert "'/query'" in refused.json()["message"]


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b"{}", b'{"ksql": 1}', b'{"ksql": "SHOW STREAMS;", "streamsProperties": 1}']
)
def test_bodies_that_are_none(served: Served, body: bytes) -> None:
    for path in ("/ksql", "/query", "/query-stream"):
        refused = served.http.post(path, content=body)
        assert refused.status_code == 400
        assert refused.json()["error_code"] in (40000, 40001)
        if b"SHOW" not in body:
            assert refused.json()["@type"] == "generic_error"


def test_content_types(served: Served) -> None:
    v1 = "application/vnd.ksql.v1+json"
    body = b'{"ksql": "SHOW STREAMS;"}'
    for kind in (v1, f"{v1}; charset=utf-8", "application/json", None):
        headers = {"Content-Type": kind} if kind else {}
        assert served.http.post("/ksql", content=body, headers=headers).status_code == 200
    assert served.http.get("/info", headers={"Accept": v1}).headers["Content-Type"] == v1
    accepts = f"{v1}; q=0.5, application/json"
    assert served.http.get("/info", headers={"Accept": accepts}).headers["Content-Type"] == "application/json"
    assert served.http.get("/info", headers={"Accept": "text/html"}).status_code == 406


def test_what_a_server_says_of_itself(served: Served, broker: Broker) -> None:
    info = served.http.get("/info").json()["KsqlServerInfo"]
    assert info["ksqlServiceId"] == "default_"
    assert info["serverStatus"] == "RUNNING"
    assert info["kafkaClusterId"]
    health = served.http.get("/healthcheck").json()
    assert health["isHealthy"] is True
    assert health["details"]["kafka"] == {"isHealthy": True}
    [status] = served.http.get("/clusterStatus").json()["clusterStatus"].values()
    assert status["hostAlive"] is True
    assert served.http.get("/").headers["Location"] == "/info"
    assert served.http.get("/v1/metadata/id").json()["scope"]["clusters"]["ksql-cluster"] == "default_"
    assert "/query-stream" in served.http.get("/openapi.json").json()["paths"]


def test_the_state_of_commands(served: Served) -> None:
    created = served.done("CREATE STREAM b (x INT) WITH (kafka_topic='b', partitions=1);")[0]
    assert served.http.get("/status").json()["commandStatuses"]["stream/`B`/create"] == "SUCCESS"
    one = {"status": "SUCCESS", "message": "Stream created", "queryId": None}
    assert served.http.get("/status/stream/%60B%60/create").json() == one
    assert served.http.get("/status/stream/B/create").json() == one
    missing = served.http.get("/status/stream/none/create")
    assert (missing.status_code, missing.json()["error_code"]) == (404, 40400)
    served.done("DROP STREAM b;", commandSequenceNumber=created["commandSequenceNumber"])
    late = served.ksql("SHOW STREAMS;", commandSequenceNumber=10_000_000)
    assert (late.status_code, late.json()["error_code"]) == (503, 50301)


def test_whether_a_property_may_be_set(served: Served) -> None:
    for name in ("auto.offset.reset", "ksql.streams.auto.offset.reset", "ksql.query.pull.enable"):
        assert served.http.get(f"/is_valid_property/{name}").json() is True
    refused = served.http.get("/is_valid_property/ksql.service.id")
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40000)
    assert refused.json()["message"].endswith(": [ksql.service.id]")


def test_unknown_paths_and_methods(served: Served) -> None:
    assert served.http.get("/nothing").json() == {
        "@type": "generic_error",
        "error_code": 40400,
        "message": "HTTP 404 Not Found",
    }
    assert served.http.get("/ksql").status_code == 405


def test_rows_as_delimited_lines_and_as_an_array(served: Served) -> None:
    body = {"sql": "PRINT 's' FROM BEGINNING LIMIT 2;", "properties": {}}
    answer = served.http.post("/query-stream", json=body)
    assert answer.headers["Content-Type"] == "application/vnd.ksqlapi.delimited.v1"
    header, *rows = [json.loads(line) for line in answer.text.splitlines()]
    assert header["columnNames"] == ["ROWTIME", "PARTITION", "OFFSET", "KEY", "VALUE"]
    assert header["queryId"].startswith("transient_PRINT_")
    assert [row[1:] for row in rows] == [
        [0, 0, "1", '{"X":"one","N":[1]}'],
        [0, 1, "2", '{"X":"two","N":null}'],
    ]
    answer = served.http.post("/query-stream", json=body, headers={"Accept": "application/json"})
    array = answer.json()
    assert array[0]["columnNames"] == header["columnNames"]
    assert array[1:] == rows
    lines = served.http.post("/query", json={"ksql": body["sql"]}).text.splitlines()
    assert len(lines) == 2
    assert lines[0].endswith('key: 1, value: {"X":"one","N":[1]}, partition: 0')


def test_statements_that_are_no_query(served: Served) -> None:
    for path in ("/query", "/query-stream"):
        refused = served.http.post(path, json={"ksql": "SHOW STREAMS;"})
        assert (refused.status_code, refused.json()["error_code"]) == (400, 40001)
        refused = served.http.post(path, json={"ksql": "PRINT 's'; PRINT 's';"})
        assert refused.status_code == 400
        assert served.http.post(path, json={"ksql": "PRINT 'none';"}).json()["error_code"] == 40001


def queries(served: Served) -> list[str]:
    return [each["id"] for each in served.done("SHOW QUERIES;")[0]["queries"]]


@pytest.mark.parametrize("http2", [False, True])
def test_a_push_query_is_listed_and_ends_with_its_client(served: Served, http2: bool) -> None:
    with (
        httpx.Client(http1=not http2, http2=http2, timeout=60) as client,
        client.stream(
            "POST", f"{served.url}/query-stream", json={"sql": "PRINT 's' FROM BEGINNING;"}
        ) as answer,
    ):
        lines = answer.iter_lines()
        header = json.loads(next(lines))
        next(lines)
        assert queries(served) == [header["queryId"]]
    wait_until(lambda: queries(served) == [])


def test_a_client_that_goes_silently_ends_its_query(served: Served) -> None:
    """No row arrives that could fail to be written, so the closed connection alone must end the query."""
    body = json.dumps({"sql": "PRINT 's';"}).encode()
    with closing(socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])))) as connection:
        connection.sendall(
            b"POST /query-stream HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n%b"
            % (len(body), body)
        )
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        wait_until(lambda: len(queries(served)) == 1)
    wait_until(lambda: queries(served) == [])


def test_close_query_and_terminate(served: Served) -> None:
    for ending in ("close", "terminate"):
        with served.http.stream("POST", "/query-stream", json={"sql": "PRINT 's';"}) as answer:
            lines = answer.iter_lines()
            query_id = json.loads(next(lines))["queryId"]
            if ending == "close":
                assert httpx.post(f"{served.url}/close-query", json={"queryId": query_id}).status_code == 200
            else:
                httpx.post(f"{served.url}/ksql", json={"ksql": f"TERMINATE {query_id};"}).raise_for_status()
            assert list(lines) == []
    refused = served.http.post("/close-query", json={"queryId": "none"})
    assert (refused.status_code, refused.json()["error_code"]) == (400, 40000)


def inserted(served: Served, lines: list[Any], http2: bool = True) -> list[dict[str, Any]]:
    body = "".join(f"{json.dumps(line)}\n" for line in lines)
    with httpx.Client(http1=not http2, http2=http2) as client:
        answer = client.post(f"{served.url}/inserts-stream", content=body)
    return [json.loads(line) for line in answer.text.splitlines()]


def test_rows_are_inserted_and_acknowledged(served: Served, broker: Broker) -> None:
    rows = [{"k": number, "x": f"row {number}", "`N`": [1, 2]} for number in range(500)]
    for http2 in (True, False):
        acks = inserted(served, [{"target": "t2"}], http2)
        assert acks[0]["error_code"] == 40001
        served.done(
            "CREATE STREAM t2 (k INT KEY, x STRING, n ARRAY<INT>) WITH (kafka_topic='t2', partitions=1);"
        )
        acks = inserted(served, [{"target": "T2"}, *rows], http2)
        assert acks == [{"status": "ok", "seq": number} for number in range(500)]
        records = broker.records("t2", 0)
        assert len(records) == 500
        assert bytes(records[7].value or b"") == b'{"X":"row 7","N":[1,2]}'
        served.done("DROP STREAM t2 DELETE TOPIC;")


def test_a_row_that_is_wrong_ends_the_inserts_with_its_number(served: Served) -> None:
    served.done("CREATE STREAM t3 (k INT KEY, x STRING) WITH (kafka_topic='t3', partitions=1);")
    acks = inserted(served, [{"target": "t3"}, {"k": 1}, {"k": "text"}, {"k": 2}])
    assert acks[0] == {"status": "ok", "seq": 0}
    assert (acks[1]["status"], acks[1]["seq"], acks[1]["error_code"]) == ("error", 1, 40001)
    assert len(acks) == 2
    assert inserted(served, ["nonsense"])[0]["error_code"] == 40000


class _WebSocket:
    def __init__(self, served: Served, request: Any) -> None:
        self.socket = socket.create_connection(("127.0.0.1", int(served.url.rpartition(":")[2])), timeout=60)
        self.wire = WSConnection(ConnectionType.CLIENT)
        target = str(httpx.URL("/ws/query", params={"request": json.dumps(request)}))
        self.socket.sendall(self.wire.send(Request(host="localhost", target=target)))
        self.held: list[Any] = []

    def next(self) -> Any:
        while not self.held:
            self.wire.receive_data(self.socket.recv(65536) or None)
            self.held += [
                each for each in self.wire.events() if isinstance(each, TextMessage | CloseConnection)
            ]
        return self.held.pop(0)


def test_a_websocket_has_a_message_for_each_row(served: Served) -> None:
    client = _WebSocket(served, {"ksql": "PRINT 's' FROM BEGINNING LIMIT 1;"})
    assert json.loads(client.next().data)["VALUE"] == '{"X":"one","N":[1]}'
    assert json.loads(client.next().data) == {"finalMessage": "Limit Reached"}
    assert client.next().code == 1000
    client.socket.close()
    wrong = _WebSocket(served, {"ksql": "PRINT 'none';"})
    assert json.loads(wrong.next().data)["error_code"] == 40001
    wrong.socket.close()
    going = _WebSocket(served, {"ksql": "PRINT 's';"})
    wait_until(lambda: len(queries(served)) == 1)
    going.socket.close()
    wait_until(lambda: queries(served) == [])


def test_the_end_of_a_cluster(broker: Broker) -> None:
    with serving(broker.bootstrap_servers, no_spark, service_id="ending_") as served:
        answer = served.http.post("/ksql/terminate", json={})
        assert answer.json()[0]["commandStatus"]["status"] == "SUCCESS"
        wait_until(served.server.ended.is_set)
        refused = served.ksql("CREATE STREAM z (x INT) WITH (kafka_topic='z', partitions=1);")
        assert refused.status_code == 503


@pytest.mark.parametrize("path", ["/ksql", "/query-stream", "/query"])
@pytest.mark.parametrize(
    "expression",
    ["(" * 150 + "x" + ")" * 150, "LCASE(" * 5000 + "x" + ")" * 5000, "x" + " || x" * 1500],
    ids=["parentheses", "functions", "chain"],
)
def test_a_statement_that_nests_too_deep_is_a_bad_request(served: Served, path: str, expression: str) -> None:
    """The parser refuses the parentheses; it accepts the chain, which the planner refuses."""
    text = f"SELECT {expression} FROM s EMIT CHANGES;"
    if path == "/ksql":
        text = f"CREATE STREAM deep AS {text}"
    refused = served.http.post(path, json={"sql" if path == "/query-stream" else "ksql": text})
    assert refused.status_code == 400
    assert "nests too deep" in refused.json()["message"]


_WINDOWED = (
    "CREATE TABLE w (n INT, k STRING PRIMARY KEY) WITH (kafka_topic='w', partitions=1, window_type='Tumbling', "
    "window_size='10 SECONDS');"
)


def test_a_pull_query_marks_its_keys_and_ends_each_line(served: Served, broker: Broker) -> None:
    served.done(
        "CREATE TABLE p (n INT, k STRING PRIMARY KEY) WITH (kafka_topic='p', partitions=1);"
        "INSERT INTO p VALUES ('x', 1); INSERT INTO p VALUES ('y', 2);" + _WINDOWED
    )
    answer = served.http.post("/query", json={"ksql": "SELECT * FROM p WHERE k IN ('x', 'y');"})
    header, *rows = answer.json()
    assert header["header"]["schema"] == "`K` STRING KEY, `N` INTEGER"
    assert rows == [{"row": {"columns": ["x", 1]}}, {"row": {"columns": ["y", 2]}}]
    assert [line[-2:] for line in answer.text.splitlines()] == ["},", "},", "}]"]
    none = served.http.post("/query", json={"ksql": "SELECT n, k FROM p WHERE k = 'z';"}).json()
    assert [each["header"]["schema"] for each in none] == ["`N` INTEGER, `K` STRING KEY"]
    broker.produce("w", b'{"N": 3}', key=b"ann" + (20_000).to_bytes(8, "big"))
    header, row = served.http.post("/query", json={"ksql": "SELECT * FROM w WHERE k = 'ann';"}).json()
    assert (
        header["header"]["schema"]
        == "`K` STRING KEY, `WINDOWSTART` BIGINT KEY, `WINDOWEND` BIGINT KEY, `N` INTEGER"
    )
    assert row == {"row": {"columns": ["ann", 20_000, 30_000, 3]}}


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("", "Missing WHERE clause."),
        ("WHERE n = 1", "WHERE clause missing key column for disjunct: (N = 1)."),
        ("WHERE k = 1 OR n = 1", "WHERE clause missing key column"),
        ("WHERE k = 1", "Multi-column sources must specify every key in the WHERE clause."),
    ],
)
def test_without_scans_a_pull_query_names_its_keys(served: Served, where: str, reason: str) -> None:
    keys = "k INT PRIMARY KEY, l INT PRIMARY KEY" if where == "WHERE k = 1" else "k INT PRIMARY KEY"
    served.done(f"CREATE TABLE q ({keys}, n INT) WITH (kafka_topic='q', partitions=1, key_format='JSON');")
    scans = {"ksql.query.pull.table.scan.enabled": "false"}
    body = {"ksql": f"SELECT * FROM q {where};", "streamsProperties": scans}
    refused = served.http.post("/query", json=body)
    served.done("DROP TABLE q DELETE TOPIC;")
    assert refused.status_code == 400
    assert reason in refused.json()["message"]
