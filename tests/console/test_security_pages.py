"""ACLs, users, quotas and tokens, on a broker that requires a login."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.client.admin.acls import describe_acls
from ottla.client.admin.quotas import ANY, describe_quotas
from ottla.client.cluster import Cluster
from ottla.client.settings import Settings
from ottla.console.server import Console
from ottla.console.settings import ClusterSettings, ConsoleSettings
from ottla.http.background import InBackground
from ottla.security.acls import AclFilter
from ottla.testing import Broker
from tests.console.browsing import Visitor, text_of


@pytest.fixture(scope="module")
def secured() -> Iterator[Broker]:
    config = {"delegation.token.secret.key": "a secret of brokers"}
    with Broker(security="SASL_PLAINTEXT", users={"ann": "ann-pw"}, acls=[], config=config) as running:
        yield running


def properties(broker: Broker, user: str, password: str) -> dict[str, str]:
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "SCRAM-SHA-256",
        "sasl.username": user,
        "sasl.password": password,
    }


@pytest.fixture(scope="module")
def login(secured: Broker) -> dict[str, str]:
    given = {key: str(value) for key, value in secured.client_properties().items()}
    return {**given, "bootstrap.servers": secured.bootstrap_servers}


@pytest.fixture(scope="module")
def admin(secured: Broker, login: dict[str, str]) -> Iterator[Cluster]:
    cluster = Cluster(Settings.from_properties(login))
    yield cluster
    cluster.close()


@pytest.fixture(scope="module")
def visitor(secured: Broker, login: dict[str, str]) -> Iterator[Visitor]:
    settings = ConsoleSettings((ClusterSettings("local", login),), port=0, refresh_seconds=0.2)
    with InBackground(lambda: Console(settings), "console") as running, Visitor(running.url) as visiting:
        yield visiting


def test_an_acl_is_added_and_removed(visitor: Visitor, admin: Cluster) -> None:
    fields = {
        "permission": "ALLOW",
        "principal": "User:ann",
        "operation": "READ",
        "resource_type": "TOPIC",
        "resource": "orders",
        "pattern": "PREFIXED",
        "host": "*",
    }
    plan = visitor.submit("acls", "/acls/create", **fields)
    assert [each for each in describe_acls(admin, AclFilter()) if each.entry.principal == "User:ann"] == []
    visitor.confirm(plan, "/acls/create")
    [acl] = [each for each in describe_acls(admin, AclFilter()) if each.entry.principal == "User:ann"]
    assert str(acl.pattern) == "Topic:PREFIXED:orders"
    page = visitor.get("acls", q="orders")
    assert "prefix" in page.text
    done = visitor.confirm(visitor.send(visitor.form(page, "/acls/delete")), "/acls/delete")
    assert "Removed: ALLOW User:ann" in done.text
    assert [each for each in describe_acls(admin, AclFilter()) if each.entry.principal == "User:ann"] == []
    assert visitor.submit("acls", "/acls/create", **{**fields, "operation": "FLY"}).status_code == 400


def test_a_user_gets_a_password_and_loses_it(visitor: Visitor, secured: Broker) -> None:
    fields = {"user": "bob", "password": "bob-s3cret", "mechanism": "SCRAM-SHA-256"}
    plan = visitor.submit("users", "/users/set", **fields)
    assert "bob-s3cret" not in plan.text
    refused = visitor.confirm(plan, "/users/set", password="other")
    assert "the two passwords differ" in refused.text
    page = visitor.confirm(plan, "/users/set", password="bob-s3cret")
    assert "The password of &#39;bob&#39; was set" in page.text
    assert "bob-s3cret" not in page.text
    assert "bob-s3cret" not in visitor.get("changes").text

    def can_log_in() -> bool:
        cluster = Cluster(Settings.from_properties(properties(secured, "bob", "bob-s3cret")))
        try:
            cluster.metadata([])
        except Exception:
            return False
        finally:
            cluster.close()
        return True

    assert can_log_in()
    page = visitor.get("users", q="bob")
    assert {"user": "bob", "mechanisms": {"SCRAM-SHA-256": 4096}} in visitor.json("users")["users"]
    form = visitor.form(page, "/users/delete")
    visitor.confirm(visitor.send(form, user="bob", mechanism="SCRAM-SHA-256"), "/users/delete")
    assert not can_log_in()


def test_a_quota_is_set_and_removed(visitor: Visitor, admin: Cluster) -> None:
    given = {"user": "<default>", "key": "producer_byte_rate"}
    plan = visitor.submit("quotas", "/quotas/set", **given, value="1024")
    assert describe_quotas(admin, {"user": ANY}) == []
    visitor.confirm(plan, "/quotas/set")
    [quota] = describe_quotas(admin, {"user": ANY})
    assert (quota.entity, quota.values) == ({"user": None}, {"producer_byte_rate": 1024.0})
    page = visitor.get("quotas")
    assert "user &lt;default&gt;" in page.text
    plan = visitor.submit("quotas", "/quotas/set", **given, value="")
    assert "1024 removed" in text_of(plan)
    visitor.confirm(plan, "/quotas/set")
    assert describe_quotas(admin, {"user": ANY}) == []
    assert visitor.submit("quotas", "/quotas/set", key="producer_byte_rate", value="1").status_code == 400


def test_a_token_is_created_shown_once_and_expired(visitor: Visitor) -> None:
    page = visitor.submit("tokens", "/tokens/create", hours="1")
    assert "A token was created" in page.text, text_of(page)
    [token] = visitor.json("tokens")["tokens"]
    assert token["token_id"] in page.text
    assert "hmac" not in token
    again = visitor.get("tokens")
    assert "A token was created" not in again.text
    visitor.send(visitor.form(again, "/tokens/expire"))
    assert visitor.json("tokens")["tokens"] == []
