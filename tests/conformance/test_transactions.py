"""Transactions.

In the versions of the protocol that each client speaks.
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from .cases import case
from .client import AgentClient
from .records import ClientError


class TransactionalProducer:
    def __init__(self, client: AgentClient, transactional_id: str) -> None:
        self._client = client
        self._handle: int = client.call("begin_producer", transactional_id=transactional_id)

    def transact(self, topic: str, *values: str, outcome: str = "commit", **offsets: Any) -> None:
        arguments = {"group": None, "offset": -1, **offsets}
        self._client.call(
            "transact", handle=self._handle, topic=topic, values=values, outcome=outcome, **arguments
        )

    def finish(self, *, commit: bool) -> None:
        self._client.call("finish", handle=self._handle, commit=commit)


def values(client: AgentClient, topic: str, n: int, isolation: str) -> list[bytes | None]:
    consumer = client.open(topic, isolation=isolation)
    try:
        read = consumer.poll(n)
        assert consumer.poll(1, timeout=0.5) == [], "more followed"
    finally:
        consumer.close()
    return [record.value for record in read]


@case("Commit and abort transactions", needs=["transactions"])
def test_commit_and_abort(client: AgentClient, topic: str) -> None:
    producer = TransactionalProducer(client, f"x-{topic}")
    producer.transact(topic, "a", "b")
    producer.transact(topic, "never", outcome="abort")
    producer.transact(topic, "c")
    assert values(client, topic, 3, "read_committed") == [b"a", b"b", b"c"]
    assert values(client, topic, 4, "read_uncommitted") == [b"a", b"b", b"never", b"c"]


@case("read_committed stops before an open transaction", needs=["transactions"])
def test_open_transaction(client: AgentClient, observer: AgentClient, topic: str) -> None:
    producer = TransactionalProducer(client, f"x-{topic}")
    producer.transact(topic, "a")
    producer.transact(topic, "b", outcome="open")
    assert values(client, topic, 1, "read_committed") == [b"a"]
    assert values(observer, topic, 2, "read_uncommitted") == [b"a", b"b"]
    producer.finish(commit=True)
    assert values(client, topic, 2, "read_committed") == [b"a", b"b"]


@case("A second producer with the same transactional.id fences the first", needs=["transactions"])
def test_fencing(client: AgentClient, topic: str) -> None:
    first = TransactionalProducer(client, f"x-{topic}")
    first.transact(topic, "zombie", outcome="open")
    second = TransactionalProducer(client, f"x-{topic}")
    with pytest.raises(ClientError):
        first.finish(commit=True)
    second.transact(topic, "alive")
    assert values(client, topic, 1, "read_committed") == [b"alive"]


@case("Commit offsets in a transaction", needs=["transactions"])
def test_offsets(client: AgentClient, observer: AgentClient, topic: str) -> None:
    group = f"g-{uuid.uuid4()}"
    producer = TransactionalProducer(client, f"x-{topic}")
    producer.transact(topic, "a", group=group, offset=5)
    producer.transact(topic, "b", group=group, offset=9, outcome="abort")
    assert observer.call("group_offsets", group=group) == [[topic, 0, 5]]
