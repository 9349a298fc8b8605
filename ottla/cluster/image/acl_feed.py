"""Keep an authorizer in sync with the ACLs in the store, using Kafka's change notifications."""

from __future__ import annotations

import logging

from ottla.cluster.image.change_notifications import sequence_of
from ottla.metadata import acl_nodes
from ottla.metadata.acl_nodes import (
    EXTENDED_CHANGES,
    LITERAL_CHANGES,
    Acls,
    decode_notification,
    load_acls,
    read_acls,
)
from ottla.metadata.stores.store import NodeStore, StoreError, children_if_any, ensure_paths
from ottla.security.acls import ResourcePattern
from ottla.security.authorizer import Authorizer

logger = logging.getLogger(__name__)

FOLDERS = (LITERAL_CHANGES, EXTENDED_CHANGES)


class AclFeed:
    """Invariant: the authorizer decides by the last successful read of the ACL nodes; an unreadable node changes
    nothing.

    Owner: the event loop.
    """

    def __init__(self, store: NodeStore, authorizer: Authorizer) -> None:
        self._store = store
        self._authorizer = authorizer
        self._last = dict.fromkeys(FOLDERS, -1)

    async def prepare(self) -> None:
        """Create the parent nodes of ACLs and notifications, as Kafka does, so that they can be watched."""
        await ensure_paths(self._store, acl_nodes.FOLDERS)

    async def load(self) -> None:
        """Read all ACLs, after the newest notification. Changes notified during the read are harmlessly read twice."""
        for folder in FOLDERS:
            names = await children_if_any(self._store, folder)
            self._last[folder] = max(map(sequence_of, names), default=self._last[folder])
        try:
            found = await load_acls(self._store)
        except ValueError as error:
            raise StoreError(f"The ACLs cannot be read, so access could not be checked: {error}.") from None
        for pattern in {acl.pattern for acl in self._authorizer} - found.keys():
            self._authorizer.replace(pattern, ())
        self._take(found)

    async def read_changes(self, gap: type[Exception]) -> None:
        for folder in FOLDERS:
            names = await children_if_any(self._store, folder)
            new = sorted(
                (sequence_of(name), name) for name in names if sequence_of(name) > self._last[folder]
            )
            if not new:
                continue
            if new[0][0] != self._last[folder] + 1:
                raise gap
            found = await self._store.get_many([f"{folder}/{name}" for _, name in new])
            if None in found:
                raise gap
            patterns = dict.fromkeys(
                pattern for node in found if node is not None for pattern in _named_by(node.data)
            )
            try:
                self._take(await read_acls(self._store, list(patterns)))
            except ValueError as error:
                logger.error(
                    "ACLs have changed but cannot be read; the previous ACLs stay in force: %s", error
                )
            self._last[folder] = new[-1][0]

    def _take(self, acls: Acls) -> None:
        for pattern, entries in acls.items():
            if self._authorizer.entries(pattern) != entries:
                self._authorizer.replace(pattern, entries)


def _named_by(data: bytes) -> list[ResourcePattern]:
    try:
        return [decode_notification(data)]
    except (ValueError, KeyError) as error:
        logger.error("Ignoring a notification of a changed ACL, which cannot be read: %s", error)
        return []
