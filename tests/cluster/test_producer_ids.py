"""Every producer id is unique."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

from ottla.cluster.producer_ids import BLOCK_SIZE, ProducerIds
from ottla.metadata.stores.embedded import EmbeddedStore

PATH = "/latest_producer_id_block"


async def test_ids_come_from_blocks_that_are_written_as_kafka_writes_them(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    ids = ProducerIds(store, 3)
    assert [await ids.allocate() for _ in range(3)] == [0, 1, 2]
    assert json.loads((await store.get(PATH)).data) == {
        "version": 1,
        "broker": 3,
        "block_start": "0",
        "block_end": "999",
    }
    await store.close()


async def test_brokers_and_lives_of_a_broker_never_share_an_id(tmp_path: Path) -> None:
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    brokers = [ProducerIds(store, broker) for broker in range(3)]
    taken = await asyncio.gather(*(broker.allocate() for broker in brokers for _ in range(BLOCK_SIZE + 5)))
    await store.close()
    store = EmbeddedStore(tmp_path / "metadata.db", sync=False)
    taken.append(await ProducerIds(store, 0).allocate())
    await store.close()
    assert len(set(taken)) == len(taken) == 3 * (BLOCK_SIZE + 5) + 1
    assert max(taken) == 6 * BLOCK_SIZE
