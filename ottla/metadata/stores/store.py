"""A tree of versioned nodes, after ZooKeeper's model: what every metadata store must offer.

The contract, which `tests/metadata/test_store.py` holds every store to:

- A node has bytes and a version that starts at 0 and grows by one with each `set`. A write that names a
  version succeeds only against that version; -1 means any.
- A parent must exist before its children and may go only after them. The root always exists.
- An ephemeral node lives as long as the store that created it is open, and has no children.
- A sequential node gets the ten digits of a counter of its parent behind its name.
- A write has reached the disk (or the ensemble) when its coroutine returns, and nobody reads it before that.
- Watches stay until cancelled. A callback runs on the event loop after the change can be read; several
  changes may cause one call, but the last change always causes one. It gets only the path: read again.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple, Protocol

ANY_VERSION = -1

Watcher = Callable[[str], None]
CancelWatch = Callable[[], None]


class StoreError(Exception):
    """The store cannot do what was asked; the text is one sentence for an operator."""


class NodeError(StoreError):
    """A rule of the tree forbids the operation on the node at `path`."""

    reason = "is refused"

    def __init__(self, path: str) -> None:
        super().__init__(f"{path} {self.reason}")
        self.path = path


class NoNode(NodeError):
    reason = "does not exist"


class NodeExists(NodeError):
    reason = "exists already"


class BadVersion(NodeError):
    reason = "has changed since it was read"


class NotEmpty(NodeError):
    reason = "has children"


class EphemeralParent(NodeError):
    reason = "is ephemeral and cannot have children"


class BadPath(NodeError):
    reason = "is not a path: it starts with /, does not end with one, and has no empty, . or .. part"


class Stat(NamedTuple):
    version: int
    #: Grows with every node created, also over restarts; a broker's epoch is that of its registration.
    czxid: int
    ephemeral: bool
    child_count: int


class Node(NamedTuple):
    data: bytes
    version: int


class Create(NamedTuple):
    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False


class Set(NamedTuple):
    path: str
    data: bytes
    version: int = ANY_VERSION


class Delete(NamedTuple):
    path: str
    version: int = ANY_VERSION


class Check(NamedTuple):
    """Let the other operations of a `multi` pass only while the node has this version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check
# The path of a Create, the new version of a Set, None of the others.
Result = str | int | None


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the ensemble cannot be reached; the session may still be there
    EXPIRED = "expired"  # ephemeral nodes are gone, and a new session has begun


class NodeStore(Protocol):
    """See the module's docstring for what each store promises."""

    @property
    def on_session(self) -> list[Callable[[SessionState], None]]:
        """Called when the session changes, on the event loop."""

    @property
    def lease_until(self) -> float:
        """Until this moment of the monotonic clock no ephemeral node of this store can have gone."""

    async def open(self) -> None:
        """Get ready. Every other call does this by itself; calling it first shows trouble early."""

    async def close(self) -> None:
        """Finish the writes under way and let the ephemeral nodes go."""

    async def sync(self) -> None:
        """Let the reads that follow see all that was written before, by whomever."""

    async def get(self, path: str) -> Node:
        """Data and version, or NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Data and version of each path, None where there is no node; in one round trip."""

    async def exists(self, path: str) -> Stat | None: ...

    async def children(self, path: str) -> list[str]:
        """Names (not paths) of the children, sorted."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Returns the path, which for a sequential node is the one it was given."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Returns the new version."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """All of them or none; raises the error of the first that cannot be done."""

    def watch(self, path: str, callback: Watcher, *, children: bool = False) -> CancelWatch:
        """Call back when the node comes, changes or goes; with `children`, when a child comes or goes."""


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def check_path(path: str) -> None:
    if path == "/":
        return
    if (
        not path.startswith("/")
        or "\0" in path
        or any(part in ("", ".", "..") for part in path[1:].split("/"))
    ):
        raise BadPath(path)


async def children_if_any(store: NodeStore, path: str) -> list[str]:
    """Names of the children; none of a node that does not exist."""
    try:
        return await store.children(path)
    except NoNode:
        return []


async def ensure_paths(
    store: NodeStore, paths: Sequence[str], data: Mapping[str, bytes] = MappingProxyType({})
) -> None:
    """Create what is missing of these paths and of the paths above them, empty unless they have `data`."""
    wanted: dict[str, None] = {}
    for path in paths:
        check_path(path)
        parts = path[1:].split("/")
        for depth in range(1, len(parts) + 1):
            wanted["/" + "/".join(parts[:depth])] = None
    wanted.pop("/", None)
    while True:
        found = await store.get_many(list(wanted))
        missing = [
            Create(path, data.get(path, b""))
            for path, node in zip(wanted, found, strict=True)
            if node is None
        ]
        if not missing:
            return
        try:
            await store.multi(missing)
        except NodeExists:
            continue  # another broker was faster with one of them
        return
