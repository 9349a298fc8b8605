"""Promise: each schema is fetched once, over one connection, and an error is one sentence."""

from __future__ import annotations

import socket

import pytest

from ottla.client.errors import ClientError, Unreachable
from ottla.client.schema_registry import (
    PROTOBUF,
    Reference,
    RegistryError,
    RegistrySettings,
    Schema,
    SchemaRegistry,
)
from tests.client.registry_server import RegistryServer


def client(url: str, **properties: str) -> SchemaRegistry:
    given = {f"schema.registry.{name}": value for name, value in properties.items()}
    return SchemaRegistry(RegistrySettings.from_properties({"schema.registry.url": url, **given}))


def test_a_schema_is_registered_found_and_asked_for_once() -> None:
    with RegistryServer() as server, client(server.url) as registry:
        schema = Schema('"string"')
        number = registry.register("orders-value", schema)
        assert registry.register("orders-value", schema) == number
        for _ in range(3):
            assert registry.by_id(number).text == '"string"'
        assert registry.by_guid(server.guid(number)).text == '"string"'
        assert registry.latest("orders-value") == Schema(
            '"string"', "AVRO", (), number, server.guid(number), "orders-value", 1
        )
        assert registry.version("orders-value", 1).id == number
        assert registry.lookup("orders-value", schema).id == number
        assert registry.subjects() == ["orders-value"]
        assert registry.versions("orders-value") == [1]
        assert server.requests.count("POST /subjects/orders-value/versions") == 1
        assert server.requests.count(f"GET /schemas/ids/{number}") == 1
        assert server.connections == 1


def test_references_come_along_with_the_deepest_first() -> None:
    with RegistryServer() as server, client(server.url) as registry:
        registry.register("c", Schema("c", PROTOBUF))
        registry.register("b", Schema("b", PROTOBUF, (Reference("c.proto", "c", 1),)))
        top = Schema("a", PROTOBUF, (Reference("b.proto", "b", 1), Reference("c.proto", "c", 1)))
        number = registry.register("with/odd name", top)
        found = registry.by_id(number)
        assert found._replace(id=-1, guid="") == top
        assert {name: each.text for name, each in registry.referenced(found).items()} == {
            "c.proto": "c",
            "b.proto": "b",
        }
        assert list(registry.referenced(found)) == ["c.proto", "b.proto"]


def test_references_in_a_circle_are_refused() -> None:
    with RegistryServer() as server, client(server.url) as registry:
        registry.register("a", Schema("a", PROTOBUF, (Reference("b", "b", 1),)))
        registry.register("b", Schema("b", PROTOBUF, (Reference("a", "a", 1),)))
        with pytest.raises(ClientError, match="run in a circle: b → a → b"):
            registry.referenced(registry.latest("a"))


def test_what_is_not_there_is_said_in_the_words_of_the_registry() -> None:
    with RegistryServer() as server, client(server.url) as registry:
        with pytest.raises(RegistryError, match=r"Subject 'nobody' not found\.") as refused:
            registry.latest("nobody")
        assert refused.value.is_not_found
        assert not refused.value.is_retriable
        with pytest.raises(RegistryError, match="Schema 99 not found"):
            registry.by_id(99)


def test_a_login_is_sent_and_a_path_kept() -> None:
    with RegistryServer(login="ann:se:cret", prefix="/registry") as server:
        with client(server.url, **{"basic.auth.user.info": "ann:se:cret"}) as registry:
            assert registry.subjects() == []
        with client(server.url.replace("//", "//ann:se%3Acret@")) as registry:
            assert registry.subjects() == []
        with client(server.url) as registry, pytest.raises(RegistryError, match="Unauthorized"):
            registry.subjects()


def test_another_url_answers_when_the_first_does_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        nobody = f"http://127.0.0.1:{taken.getsockname()[1]}"
    with RegistryServer() as server:
        with client(f"{nobody}, {server.url}") as registry:
            assert registry.subjects() == []
            assert registry.subjects() == []
        assert server.connections == 1
    with client(nobody) as registry, pytest.raises(Unreachable, match="No schema registry answers at"):
        registry.subjects()


def test_a_connection_that_was_closed_meanwhile_is_opened_again() -> None:
    with RegistryServer() as server, client(server.url) as registry:
        registry.subjects()
        connection = registry._connection
        assert connection is not None
        assert connection.sock is not None
        connection.sock.shutdown(socket.SHUT_RDWR)
        assert registry.subjects() == []


@pytest.mark.parametrize("url", ["", "localhost:8081", "ftp://x", "http://:80", "http://h:port"])
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ClientError, match=r"schema\.registry\.url"):
        RegistrySettings.from_properties({"schema.registry.url": url})


def test_a_password_is_not_shown() -> None:
    settings = RegistrySettings.from_properties(
        {"schema.registry.url": "http://h", "schema.registry.basic.auth.user.info": "ann:hidden"}
    )
    assert "hidden" not in repr(settings)
