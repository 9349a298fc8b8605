"""One client writes, another reads."""

from __future__ import annotations

from collections.abc import Callable

from ..capabilities import CODECS
from ..cases import case
from ..client import Client
from ..clients import CLIENTS
from ..records import Record

NAMES = [client.name for client in CLIENTS]


def codec_for(producer: Client, consumer: Client) -> str:
    """Return a codec that both clients support, varying by pair."""
    shared = [codec for codec in CODECS if f"codec:{codec}" in producer.capabilities & consumer.capabilities]
    return shared[(NAMES.index(producer.name) + NAMES.index(consumer.name)) % len(shared)]


@case("Reads what {producer} wrote", producer=NAMES)
def test_cross_client(client: Client, clients: Callable[[str], Client], producer: str, topic: str) -> None:
    writer = clients(producer)
    both = writer.capabilities & client.capabilities
    headers = (("from", producer.encode()), ("to", client.name.encode())) if "headers" in both else ()
    stamp = 1_700_000_000_000 if "timestamps" in writer.capabilities else None
    records = [
        Record(
            key=b"key %d" % i,
            value=b"value %d" % i * (i % 40),
            headers=headers,
            partition=0,
            timestamp=stamp and stamp + i,
        )
        for i in range(100)
    ]
    deliveries = writer.produce(topic, records, codec=codec_for(writer, client))
    assert {delivery.error for delivery in deliveries} == {None}
    read = client.consume(topic, 100)
    assert [record.offset for record in read] == list(range(100))
    for sent, got in zip(records, read, strict=True):
        assert (got.key, got.value, got.headers) == (sent.key, sent.value, sent.headers)
        if stamp is not None:
            assert got.timestamp == sent.timestamp
