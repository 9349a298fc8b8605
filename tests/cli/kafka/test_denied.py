"""A refused right is named: the topic that may not be written, the group that may not be joined."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.testing import Broker, acl


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    rights = [
        acl("ann", "describe", topic="orders"),
        acl("bob", "describe", topic="orders"),
        acl("bob", "read", topic="orders"),
    ]
    users = {"ann": "ann-secret", "bob": "bob-secret"}
    with Broker(security="SASL_PLAINTEXT", users=users, acls=rights) as broker:
        broker.create_topic("orders")
        yield broker


@pytest.fixture
def options(broker, tmp_path: Path):
    def of(user: str) -> tuple[str, ...]:
        file = tmp_path / f"{user}.properties"
        file.write_text("".join(f"{key}={value}\n" for key, value in broker.client_properties(user).items()))
        return ("--bootstrap-server", broker.bootstrap_servers, "--command-config", str(file))

    return of


def test_a_topic_that_may_not_be_written(alone, options):
    denied = alone("console-producer", *options("ann"), "--topic", "orders", stdin="x\n", code=1)
    assert denied.err == "Not authorized to write to topic 'orders': an ACL must allow Write on it.\n"


@pytest.mark.parametrize(
    ("tool", "words"),
    [
        ("console-consumer", ("--group", "mine")),
        ("verifiable-consumer", ("--group-id", "mine")),
        ("consumer-perf-test", ("--group", "mine", "--num-records", "1")),
    ],
)
def test_a_group_that_may_not_be_joined(alone, options, tool, words):
    denied = alone(tool, *options("bob"), "--topic", "orders", *words, code=1)
    assert denied.err.splitlines()[-1] == "Not authorized to access group 'mine'."
