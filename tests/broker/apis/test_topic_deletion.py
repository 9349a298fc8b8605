"""A deleted topic stays deleted, whenever the broker stops."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.metadata import nodes
from ottla.metadata.stores.embedded import EmbeddedStore
from ottla.testing import Broker

METADATA = "ottla-metadata.db"


def topics(broker: Broker) -> set[str]:
    return {path.name.rpartition("-")[0] for path in broker.data.iterdir() if path.name.endswith("-0")}


def test_a_deleted_topic_stays_deleted_after_a_restart(tmp_path: Path) -> None:
    with Broker(data=tmp_path) as broker:
        broker.create_topic("keep")
        broker.create_topic("drop")
        broker.produce("drop", b"x")
        broker.delete_topic("drop")
        broker.restart()
        assert topics(broker) == {"keep"}
        broker.create_topic("drop")
        assert broker.records("drop") == []


def test_a_deletion_that_a_crash_cut_off_is_finished(tmp_path: Path) -> None:
    """Defends: an acknowledged deletion is final; any other deletion is completed or never started."""

    async def mark() -> None:
        store = EmbeddedStore(tmp_path / METADATA)
        await store.create(nodes.delete_topic_path("drop"))
        await store.close()

    with Broker(data=tmp_path) as broker:
        broker.create_topic("keep")
        broker.create_topic("drop", 2)
        broker.produce("drop", b"x")
    asyncio.run(mark())
    for _ in range(2):
        with Broker(data=tmp_path) as broker:
            assert topics(broker) == {"keep"}
    with Broker(data=tmp_path) as broker:
        broker.create_topic("drop")
        assert broker.records("drop") == []
