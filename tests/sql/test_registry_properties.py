"""Promise: a session uses the schema registry that it names, and sends its login to no other."""

from __future__ import annotations

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyspark")

from ottla.sql.errors import Position, SqlError
from ottla.sql.properties import SessionProperties, registry_properties

HERE = Position(1, 1)
GIVEN = {
    "ksql.schema.registry.url": "http://one:8081",
    "ksql.schema.registry.basic.auth.user.info": "ann:secret",
    "bootstrap.servers": "b:9092",
}


def test_a_url_or_properties_with_and_without_ksql() -> None:
    assert registry_properties(None) == {}
    assert registry_properties("http://one:8081") == {"schema.registry.url": "http://one:8081"}
    assert registry_properties(GIVEN) == {
        "schema.registry.url": "http://one:8081",
        "schema.registry.basic.auth.user.info": "ann:secret",
    }


def test_another_registry_does_not_get_the_login_of_the_first() -> None:
    properties = SessionProperties(registry_properties(GIVEN))
    assert properties.registry()["schema.registry.basic.auth.user.info"] == "ann:secret"
    properties.set("ksql.schema.registry.url", "http://two:8081", HERE)
    assert properties.registry() == {"schema.registry.url": "http://two:8081"}
    properties.unset("ksql.schema.registry.url", HERE)
    assert properties.registry()["schema.registry.url"] == "http://one:8081"


def test_secrets_are_not_shown() -> None:
    login = SessionProperties(registry_properties("http://ann:secret@one:8081"))
    assert ("ksql.schema.registry.url", "http://one:8081", "http://one:8081") in login.rows()
    rows = {name: shown for name, _, shown in SessionProperties(registry_properties(GIVEN)).rows()}
    assert rows["ksql.schema.registry.url"] == "http://one:8081"
    assert rows["ksql.schema.registry.basic.auth.user.info"] == "[hidden]"


def test_clients_of_a_server_cannot_send_it_elsewhere() -> None:
    properties = SessionProperties(registry_properties(GIVEN), fixed_registry=True)
    with pytest.raises(SqlError, match=r"ksql\.schema\.registry\.url is a setting of the server"):
        properties.set("ksql.schema.registry.url", "http://two:8081", HERE)
