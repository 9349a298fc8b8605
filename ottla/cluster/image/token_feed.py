"""Keep the delegation tokens in the image up to date, using Kafka's notifications under /delegation_token."""

from __future__ import annotations

from ottla.cluster.image.change_notifications import sequence_of
from ottla.metadata import nodes
from ottla.metadata.cluster_image import ClusterImage
from ottla.metadata.delegation_tokens import read_tokens
from ottla.metadata.stores.store import NodeStore, children_if_any


class TokenFeed:
    """Owner: the event loop."""

    def __init__(self, store: NodeStore, image: ClusterImage) -> None:
        self._store = store
        self._image = image
        self._last = -1

    async def skip_changes(self) -> None:
        """Skip the existing notifications, because a full read follows."""
        names = await children_if_any(self._store, nodes.DELEGATION_TOKEN_CHANGES)
        self._last = max(map(sequence_of, names), default=self._last)

    async def read_changes(self, gap: type[Exception]) -> None:
        names = await children_if_any(self._store, nodes.DELEGATION_TOKEN_CHANGES)
        new = sorted((sequence_of(name), name) for name in names if sequence_of(name) > self._last)
        if not new:
            return
        if new[0][0] != self._last + 1:
            raise gap
        found = await self._store.get_many([f"{nodes.DELEGATION_TOKEN_CHANGES}/{name}" for _, name in new])
        if None in found:
            raise gap
        changed = {node.data.decode(errors="replace") for node in found if node is not None}
        # Not every string is a valid path component, and no token has an invalid id.
        ids = [each for each in changed if each.strip(".") and "/" not in each and "\0" not in each]
        for token_id, token in (await read_tokens(self._store, ids)).items():
            if token is None:
                self._image.delegation_tokens.pop(token_id, None)
            else:
                self._image.delegation_tokens[token_id] = token
        self._last = new[-1][0]
