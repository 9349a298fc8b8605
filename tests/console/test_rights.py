"""Rights on groups, schemas, connectors and SQL: past attacks, tried by each kind of user."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.client.schema_registry import RegistrySettings, Schema, SchemaRegistry
from ottla.console.access.hidden_values import HIDDEN, ConnectorConfig, without_logins
from ottla.console.access.roles import BUILT_IN, Level, Role, User
from ottla.console.settings import Mask, parse
from ottla.http import Access, HttpServer, Request, Response, Router, json_response
from ottla.http.authentication import User as FileUser
from ottla.http.background import InBackground
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of, write
from tests.shell import wait_until

SINK = "org.example.HttpSink"
DEFINITIONS = {
    "http.url": "STRING",
    "http.headers.authorization": "STRING",
    "plain.looking": "PASSWORD",
    "connection.url": "STRING",
    "batch.size": "INT",
    "topics": "LIST",
}
SECRETS = {
    "http.headers.authorization": "Bearer s3cret-bearer",
    "plain.looking": "s3cret-typed",
    "value.converter.basic.auth.user.info": "sr:s3cret-info",
    "connection.url": "jdbc:postgresql://s3cret-user:s3cret-url@db/orders?password=s3cret-param&ssl=true",
}
CONFIG = {
    "connector.class": SINK,
    "name": "orders-sink",
    "topics": "orders",
    "http.url": "http://good.example/in",
    **SECRETS,
}


class FakeConnect:
    """A worker with one plugin that records every config it receives."""

    def __init__(self) -> None:
        self.configs: dict[str, dict[str, str]] = {}
        self.received: list[tuple[str, str, dict[str, str]]] = []
        router = Router()
        for method, path, handler in (
            ("GET", "/connectors", self.all),
            ("GET", "/connectors/{name}/config", self.config),
            ("PUT", "/connectors/{name}/config", self.put),
            ("GET", "/connectors/{name}/status", self.status),
            ("GET", "/connectors/{name}/topics", self.topics),
            ("GET", "/connector-plugins", self.plugins),
            ("GET", "/connector-plugins/{plugin}/config", self.definitions),
            ("PUT", "/connector-plugins/{plugin}/config/validate", self.validate),
        ):
            router.add(method, path, handler, access=Access.ANYONE)
        self._server = HttpServer(router, "127.0.0.1", 0)

    @property
    def urls(self) -> list[str]:
        return [f"http://127.0.0.1:{self._server.port}"]

    async def start(self) -> None:
        await self._server.start()

    async def stop(self) -> None:
        await self._server.stop(0.2)

    def reset(self) -> None:
        self.configs = {"orders-sink": dict(CONFIG), "payroll-sink": {**CONFIG, "name": "payroll-sink"}}
        self.received.clear()

    async def all(self, request: Request) -> Response:
        status = {"connector": {"state": "RUNNING"}, "tasks": [], "type": "sink"}
        return json_response(
            {
                name: {"status": status, "info": {"config": config, "type": "sink"}}
                for name, config in self.configs.items()
            }
        )

    async def config(self, request: Request) -> Response:
        found = self.configs.get(request.params["name"])
        return json_response(found) if found is not None else json_response({"message": "not there"}, 404)

    async def put(self, request: Request) -> Response:
        config = await request.json()
        self.received.append(("put", request.params["name"], config))
        self.configs[request.params["name"]] = config
        return json_response(config)

    async def status(self, request: Request) -> Response:
        trace = f"ConnectException: refused by {SECRETS['connection.url']} with {SECRETS['plain.looking']}"
        tasks = [{"id": 0, "state": "FAILED", "worker_id": "w", "trace": trace}]
        return json_response({"type": "sink", "connector": {"state": "RUNNING"}, "tasks": tasks})

    async def topics(self, request: Request) -> Response:
        return json_response({request.params["name"]: {"topics": ["orders"]}})

    async def plugins(self, request: Request) -> Response:
        return json_response([{"class": SINK, "type": "sink"}])

    async def definitions(self, request: Request) -> Response:
        return json_response([{"name": name, "type": kind} for name, kind in DEFINITIONS.items()])

    async def validate(self, request: Request) -> Response:
        config = await request.json()
        self.received.append(("validate", request.params["plugin"], config))
        configs = [
            {"definition": {"name": name, "type": kind}, "value": {"name": name, "value": config.get(name)}}
            for name, kind in DEFINITIONS.items()
        ]
        return json_response({"configs": configs, "error_count": 0})


ROLES = {
    **BUILT_IN,
    "orders": Role("orders", Level.OPERATOR, ("orders*",)),
    "orders-more": Role(
        "orders-more", Level.OPERATOR, ("orders*",), ("orders-*",), ("orders-*",), ("orders-*",)
    ),
    "connecting": Role("connecting", Level.OPERATOR, connectors=("orders-*",), sql=True),
    "watching": Role("watching", Level.VIEWER, connectors=("*",)),
    "groups-only": Role("groups-only", Level.VIEWER, (), ("orders-*",)),
}
#: vera views everything; tim has topics only; tina has topics, groups, schemas and connectors.
USERS = {
    "vera": "viewer",
    "otto": "operator",
    "ada": "admin",
    "tim": "orders",
    "tina": "orders-more",
    "conny": "connecting",
    "greta": "groups-only",
    "walt": "watching",
}


@pytest.fixture(scope="module")
def connect() -> Iterator[FakeConnect]:
    made: list[FakeConnect] = []

    def make() -> FakeConnect:
        made.append(FakeConnect())
        return made[0]

    with InBackground(make, "connect"):
        yield made[0]


@pytest.fixture(autouse=True)
def fresh(connect: FakeConnect) -> None:
    connect.reset()


@pytest.fixture(scope="module")
def console(broker: Broker, open_console: Callable[..., InBackground], connect: FakeConnect) -> InBackground:
    for topic in ("orders", "payroll", "connect-configs"):
        broker.create_topic(topic)
        broker.produce(topic, b"content of " + topic.encode())
    commit(broker, "orders-readers", "orders", "payroll")
    commit(broker, "payroll-readers", "payroll", "orders")
    settings = RegistrySettings.from_properties({"schema.registry.url": broker.schema_registry_url})
    with SchemaRegistry(settings) as registry:
        for subject in ("orders-value", "payroll-value"):
            registry.register(subject, Schema('"string"', "AVRO"))
    return open_all(open_console, connect)


def open_all(open_console: Callable[..., InBackground], connect: FakeConnect, **more: Any) -> InBackground:
    url = f"http://127.0.0.1:{connect._server.port}"
    users = {name: FileUser(f"{name}-pw", frozenset({role})) for name, role in USERS.items()}
    return open_console(
        users=users, roles=ROLES, cluster={"connect": url, "sql": "http://127.0.0.1:1"}, **more
    )


def commit(broker: Broker, group: str, *topics: str) -> None:
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, 0, 0) for topic in topics], asynchronous=False)
    consumer.close()


@pytest.fixture(scope="module")
def visit_as(console: InBackground) -> Iterator[Callable[[str], Visitor]]:
    known: dict[str, Visitor] = {}

    def visitor(name: str) -> Visitor:
        if name not in known:
            known[name] = logged_in(console, name)
        return known[name]

    yield visitor
    for each in known.values():
        each.http.close()


def logged_in(console: InBackground, name: str) -> Visitor:
    visitor = Visitor(console.url)
    visitor.submit("/login", "/login", user=name, password=f"{name}-pw")
    return visitor


# -- groups --


def test_a_role_for_some_topics_sees_no_group_that_it_does_not_list(
    visit_as: Callable[[str], Visitor],
) -> None:
    tim = visit_as("tim")
    for path in (
        "groups",
        "groups/orders-readers/lag",
        "groups/payroll-readers/lag",
        "groups/orders-readers/reset",
    ):
        assert tim.get(path).status_code == 403
    assert tim.json("topics/orders/groups")["groups"] == []
    overview = tim.json("overview")
    assert (overview["groups"], overview["topics"], overview["partitions"]) == (0, 1, 1)
    assert overview["brokers"][0]["disk_total"] is None
    assert overview["brokers"][0]["replicas"] == 1
    assert ">Groups<" not in tim.get("topics").text


def test_a_role_that_lists_groups_sees_those(visit_as: Callable[[str], Visitor]) -> None:
    tina = visit_as("tina")
    assert [row["group"] for row in tina.json("groups")["groups"]] == ["orders-readers"]
    assert [row["group"] for row in tina.json("topics/orders/groups")["groups"]] == ["orders-readers"]
    assert tina.json("overview")["groups"] == 1
    assert tina.get("groups/payroll-readers/lag").status_code == 403
    lag = tina.json("groups/orders-readers/lag")
    assert {row["topic"] for row in lag["partitions"]} == {"orders"}


def test_a_lag_chart_is_about_the_topics_that_the_user_sees(
    console: InBackground, visit_as: Callable[[str], Visitor], broker: Broker
) -> None:
    """The total over all topics would reveal the load of hidden ones."""
    write(broker, "payroll", [b"x"] * 700)

    def page() -> str:
        return visit_as("tina").get("groups/orders-readers/lag").text

    wait_until(lambda: 'class="tick"' in page() and "orders-0" in page())
    assert "payroll" not in page()
    assert "701" not in page()


def test_a_role_may_be_for_groups_alone(visit_as: Callable[[str], Visitor]) -> None:
    greta = visit_as("greta")
    assert [row["group"] for row in greta.json("groups")["groups"]] == ["orders-readers"]
    assert greta.json("groups/orders-readers/lag")["partitions"] == []
    assert greta.get("overview").status_code == 200
    for path in ("topics", "topics/orders/messages", "schemas", "connectors", "heatmap"):
        assert greta.get(path).status_code == 403
    assert visit_as("otto").form(visit_as("otto").get("groups/orders-readers/reset"), "/reset")


def test_moving_offsets_names_no_topic_that_the_user_does_not_see(visit_as: Callable[[str], Visitor]) -> None:
    refused = visit_as("tina").submit("groups/orders-readers/reset", "/reset", kind="earliest", topic="")
    assert refused.status_code == 403
    assert "payroll" not in refused.text
    token = visit_as("tina").token()
    forged = {"csrf": token, "topic": "payroll", "partition": "0", "offset": "0"}
    answer = visit_as("tina").http.post("/clusters/local/groups/orders-readers/offsets", data=forged)
    assert answer.status_code == 403


# -- schemas --


def test_schemas_are_those_that_the_role_lists(visit_as: Callable[[str], Visitor]) -> None:
    tina, tim = visit_as("tina"), visit_as("tim")
    assert [row["subject"] for row in tina.json("schemas")["subjects"]] == ["orders-value"]
    assert tina.get("schemas/payroll-value/versions").status_code == 403
    assert tina.get("new-schema", subject="payroll-value").status_code == 403
    register = {
        "csrf": tina.token(),
        "subject": "payroll-value",
        "type": "AVRO",
        "schema": '"int"',
        "confirmed": "1",
    }
    assert tina.http.post("/clusters/local/new-schema", data=register).status_code == 403
    for path in ("schemas", "schemas/orders-value/versions", "new-schema"):
        assert tim.get(path).status_code == 403
    assert {row["subject"] for row in visit_as("vera").json("schemas")["subjects"]} == {
        "orders-value",
        "payroll-value",
    }


# -- connectors --


@pytest.mark.parametrize("name", ["vera", "otto", "tim"])
def test_connectors_are_for_admins_unless_a_role_lists_them(
    visit_as: Callable[[str], Visitor], name: str
) -> None:
    """Connectors act with the worker's rights, so configuring one gives access to everything."""
    visitor = visit_as(name)
    token = visitor.token()
    for path in (
        "connectors",
        "connectors/orders-sink/state",
        "connectors/orders-sink/edit",
        "new-connector",
    ):
        assert visitor.get(path).status_code == 403
    for path in ("connectors/orders-sink/act", "connectors/orders-sink/delete", "new-connector"):
        data = {"csrf": token, "action": "restart", "connector_name": "mine", "connector.class": SINK}
        assert visitor.http.post(f"/clusters/local/{path}", data=data).status_code == 403
    if name != "tim":
        assert "connector:" not in json.dumps(visitor.json("flow"))


def test_a_role_that_lists_connectors_sees_and_configures_those(
    visit_as: Callable[[str], Visitor], connect: FakeConnect
) -> None:
    tina = visit_as("tina")
    assert [row["name"] for row in tina.json("connectors")["connectors"]] == ["orders-sink"]
    assert tina.get("connectors/orders-sink/state").status_code == 200
    assert tina.get("connectors/payroll-sink/state").status_code == 403
    form = tina.form(tina.get("connectors/orders-sink/edit"), "/new-connector")
    assert tina.send(form, connector_name="payroll-sink", confirmed="1").status_code == 403
    assert not [each for each in connect.received if each[0] == "put"]


@pytest.mark.parametrize("path", ["connectors/orders-sink/state", "connectors/orders-sink/state.json", "connectors",
                                  "connectors/orders-sink/edit", "connectors.json", "flow.json"])  # fmt: skip
def test_no_page_shows_a_secret_of_a_connector(visit_as: Callable[[str], Visitor], path: str) -> None:
    page = visit_as("ada").get(path)
    assert page.status_code == 200
    assert "s3cret" not in page.text


def test_hidden_values_are_known_by_type_by_name_and_by_form(visit_as: Callable[[str], Visitor]) -> None:
    shown = visit_as("ada").json("connectors/orders-sink/state")
    config = shown["config"]
    assert {key for key, value in config.items() if value == HIDDEN} == {*SECRETS} - {"connection.url"}
    assert config["connection.url"] == f"jdbc:postgresql://{HIDDEN}@db/orders?password={HIDDEN}&ssl=true"
    assert config["http.url"] == "http://good.example/in"
    assert shown["tasks"][0]["trace"].startswith("ConnectException: refused by jdbc:postgresql://")


def edit(visitor: Visitor, connect: FakeConnect, **fields: Any) -> tuple[httpx.Response, dict[str, str]]:
    form = visitor.form(visitor.get("connectors/orders-sink/edit"), "/new-connector")
    connect.received.clear()
    given = {f"config:{name}": value for name, value in fields.items() if name in DEFINITIONS}
    page = visitor.send(
        form, **given, confirmed="1", **{k: v for k, v in fields.items() if k not in DEFINITIONS}
    )
    return page, connect.configs["orders-sink"]


def test_secrets_stay_when_only_harmless_settings_change(
    visit_as: Callable[[str], Visitor], connect: FakeConnect
) -> None:
    page, config = edit(visit_as("ada"), connect, **{"batch.size": "7", "topics": "orders,more"})
    assert page.status_code == 200
    assert config == {**CONFIG, "batch.size": "7", "topics": "orders,more"}


@pytest.mark.parametrize(
    "change",
    [
        {"http.url": "http://evil.example/"},
        {"connection.url": f"jdbc:postgresql://{HIDDEN}@evil.example/orders?password={HIDDEN}&ssl=true"},
        {"connection.url": "jdbc:postgresql://evil.example/"},
        {"topics": "http://evil.example"},
        {"extra": f"value.converter.basic.auth.user.info = {HIDDEN}\nvalue.converter.schema.registry.url = http://evil"},
        {"extra": f"value.converter.basic.auth.user.info = {HIDDEN}\nssl.endpoint.identification.algorithm ="},
        {"connector.class": "org.example.OtherSink"},
    ],
)  # fmt: skip
def test_a_kept_secret_is_not_sent_to_another_server(
    visit_as: Callable[[str], Visitor], connect: FakeConnect, change: dict[str, str]
) -> None:
    """Validation does not send it either, because Connect may log in at the server."""
    page, config = edit(visit_as("ada"), connect, **change)
    assert page.status_code == 400
    assert "again: a hidden value is kept only while" in text_of(page)
    assert config == CONFIG
    assert "s3cret" not in json.dumps(connect.received)


def test_secrets_that_are_entered_again_go_to_the_new_server(
    visit_as: Callable[[str], Visitor], connect: FakeConnect
) -> None:
    entered = {name: "new" for name in SECRETS if name in DEFINITIONS}
    extra = "value.converter.basic.auth.user.info = new"
    page, config = edit(
        visit_as("ada"), connect, **entered, extra=extra, **{"http.url": "http://other.example"}
    )
    assert page.status_code == 200
    assert config["http.url"] == "http://other.example"
    assert {config[name] for name in SECRETS} == {"new"}


def test_a_new_connector_cannot_take_the_mark_of_a_hidden_value(
    visit_as: Callable[[str], Visitor], connect: FakeConnect
) -> None:
    ada = visit_as("ada")
    form = ada.form(ada.get("new-connector", **{"class": SINK}), "/new-connector")
    page = ada.send(form, connector_name="fresh", confirmed="1", **{"config:plain.looking": HIDDEN})
    assert page.status_code == 400
    assert "fresh" not in connect.configs


def test_configs_of_connectors_are_not_read_from_their_topic(visit_as: Callable[[str], Visitor]) -> None:
    """A viewer of all topics would find the secrets there, and an operator could write a connector."""
    for name in ("vera", "otto", "walt"):
        visitor = visit_as(name)
        for path in ("messages", "messages.json", "messages/search?q=x", "messages/export", "partitions"):
            assert visitor.get(f"topics/connect-configs/{path}").status_code == 403
        assert "connect-configs" not in json.dumps(visitor.json("topics", internal="1"))
    assert "content of connect-configs" in visit_as("ada").get("topics/connect-configs/messages").text


def test_topics_in_which_servers_keep_their_state_are_written_by_admins(
    broker: Broker, visit_as: Callable[[str], Visitor]
) -> None:
    otto = visit_as("otto")
    assert otto.get("topics/_schemas/messages").status_code == 200
    for topic in ("_schemas", "__consumer_offsets", "connect-status"):
        data = {"csrf": otto.token(), "value": "x"}
        assert otto.http.post(f"/clusters/local/topics/{topic}/produce", data=data).status_code == 403
    data = {"csrf": otto.token(), "partition": "0", "offset": "0", "target": "_schemas"}
    assert otto.http.post("/clusters/local/topics/orders/resend", data=data).status_code == 403


# -- SQL and masks --


def test_sql_is_for_admins_unless_a_role_says_so(visit_as: Callable[[str], Visitor]) -> None:
    for name in ("vera", "otto", "tim", "tina"):
        assert visit_as(name).get("sql").status_code == 403
        data = {"csrf": visit_as(name).token(), "statement": "DROP TABLE t DELETE TOPIC;"}
        assert visit_as(name).http.post("/clusters/local/sql", data=data).status_code == 403
    for name in ("ada", "conny"):
        assert visit_as(name).get("sql").status_code == 200


def test_neither_sql_nor_connectors_lead_around_a_mask(
    open_console: Callable[..., InBackground], connect: FakeConnect
) -> None:
    masked = open_all(
        open_console, connect, masks=(Mask(("orders",), ("email",), except_roles=frozenset({"admin"})),)
    )
    with logged_in(masked, "conny") as conny:
        for path in ("sql", "connectors/orders-sink/edit", "new-connector"):
            refused = conny.get(path)
            assert refused.status_code == 403
            assert "masked for you" in text_of(refused)
        data = {
            "csrf": conny.token(),
            "connector_name": "orders-copy",
            "connector.class": SINK,
            "confirmed": "1",
        }
        assert conny.http.post("/clusters/local/new-connector", data=data).status_code == 403
        assert conny.get("connectors/orders-sink/state").status_code == 200
    assert "orders-copy" not in connect.configs


# -- settings --


def role(**table: Any) -> Role:
    document = {"roles": {"r": {"may": "operator", **table}}, "clusters": []}
    return parse(document, Path()).roles["r"]


@pytest.mark.parametrize(
    ("table", "covered"),
    [
        ({}, {"topic", "group", "schema"}),
        ({"topics": ["*"]}, {"topic", "group", "schema"}),
        ({"topics": ["x"]}, {"topic"}),
        ({"topics": ["x"], "groups": ["x"]}, {"topic", "group"}),
        ({"groups": ["x"]}, {"group"}),
        ({"schemas": ["x"]}, {"schema"}),
        ({"topics": ["*"], "groups": []}, {"topic", "schema"}),
        ({"connectors": ["x"]}, {"topic", "group", "schema", "connector"}),
        ({"sql": True}, {"topic", "group", "schema", "sql"}),
        ({"may": "admin"}, {"topic", "group", "schema", "connector", "sql"}),
        ({"may": "admin", "sql": False}, {"topic", "group", "schema", "connector"}),
        ({"may": "admin", "topics": ["x"]}, {"topic"}),
    ],
)
def test_a_role_covers_what_it_lists(table: dict[str, Any], covered: set[str]) -> None:
    user = User("u", (role(**table),))
    kinds: Any = ("topic", "group", "schema", "connector", "sql")
    assert {kind for kind in kinds if user.may(Level.OPERATOR, kind, "x")} == covered


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://user:pw@host/x", f"http://{HIDDEN}@host/x"),
        ("http://user:p@ss@host/x", f"http://{HIDDEN}@host/x"),
        ("http://u:a/b@host", f"http://{HIDDEN}@host"),
        ("redis://:pw@host:6379/0", f"redis://{HIDDEN}@host:6379/0"),
        ("http://u:p@h1:1,http://v:q@h2", f"http://{HIDDEN}@h1:1,http://{HIDDEN}@h2"),
        ("jdbc:sqlserver://h;user=sa;password=x;encrypt=true", f"jdbc:sqlserver://h;user={HIDDEN};password={HIDDEN};encrypt=true"),
        ("jdbc:oracle:thin:scott/tiger@//h:1521/x", f"jdbc:oracle:thin:{HIDDEN}@//h:1521/x"),
        ("Endpoint=sb://x/;SharedAccessKey=abc=", f"Endpoint=sb://x/;SharedAccessKey={HIDDEN}"),
        ('{"password": "x y", "a": 1}', f'{{"password": {HIDDEN}, "a": 1}}'),
        ("http://host:8080/x?mail=a@b.c", "http://host:8080/x?mail=a@b.c"),
        ("kafka1:9092,kafka2:9092", "kafka1:9092,kafka2:9092"),
        ("orders, payments = 3", "orders, payments = 3"),
    ],
)  # fmt: skip
def test_logins_are_taken_out_of_urls(text: str, shown: str) -> None:
    assert without_logins(text) == shown


def test_a_reference_to_a_secret_is_shown_but_not_what_stands_beside_it() -> None:
    config = ConnectorConfig({"a.password": "${file:/x:y}", "b.password": "${file:/x:y}more"}, {})
    assert config.shown() == {"a.password": "${file:/x:y}", "b.password": HIDDEN}
