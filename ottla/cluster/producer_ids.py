"""Producer ids: unique in the cluster, allocated from blocks reserved in the metadata store."""

from __future__ import annotations

import asyncio

from ottla.metadata import nodes
from ottla.metadata.nodes import ProducerIdBlock
from ottla.metadata.stores.store import BadVersion, NodeStore, NoNode, ensure_paths

BLOCK_SIZE = 1000


class ProducerIds:
    """The unused part of this broker's block.

    Invariant: the block is written before any of its ids is used, so no id is ever used twice. A stopped broker loses
    the rest of its block. Owner: the event loop.
    """

    def __init__(self, store: NodeStore, broker_id: int) -> None:
        self._store = store
        self._broker_id = broker_id
        self._next = 0
        self._end = 0
        self._reserving = asyncio.Lock()

    async def allocate(self) -> int:
        while self._next == self._end:
            async with self._reserving:
                if self._next == self._end:
                    block = await self._reserve()
                    self._next, self._end = block.first, block.last + 1
        self._next += 1
        return self._next - 1

    async def _reserve(self) -> ProducerIdBlock:
        path = nodes.LATEST_PRODUCER_ID_BLOCK
        while True:
            try:
                latest = await self._store.get(path)
                taken = nodes.decode_producer_id_block(latest.data)
                first = 0 if taken is None else taken.last + 1
                block = ProducerIdBlock(self._broker_id, first, first + BLOCK_SIZE - 1)
                await self._store.set(path, nodes.encode_producer_id_block(block), latest.version)
                return block
            except NoNode:
                await ensure_paths(self._store, [path])
            except BadVersion:
                continue  # another broker took that block
