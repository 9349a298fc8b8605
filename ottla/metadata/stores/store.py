"""A tree of versioned nodes modelled on ZooKeeper: the interface of every metadata store.

`tests/metadata/stores/test_store.py` checks this contract for every store:

- A node has bytes and a version that starts at 0 and grows by one with each `set`. A write that names a
  version succeeds only against that version; -1 means any.
- A parent is created before its children and deleted after them. The root always exists.
- An ephemeral node lives as long as the store that created it is open, and has no children.
- A sequential node gets a ten-digit counter of its parent appended to its name.
- A write has reached the disk (or the ensemble) when its coroutine returns, and is not visible before.
- Watches stay until cancelled. A callback runs on the event loop after the change can be read. One call may cover
  several changes, but the last change always causes a call. The callback gets only the path and has to reread it.
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
    """The store cannot perform the operation. The message is one sentence for an operator."""


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
    #: Grows with every created node, even across restarts. A broker's epoch is the czxid of its registration.
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
    """Condition of a `multi`: its operations succeed only while the node has this version."""

    path: str
    version: int = ANY_VERSION


Operation = Create | Set | Delete | Check
# The path of a Create, the new version of a Set, None for other operations.
Result = str | int | None


class SessionState(enum.Enum):
    CONNECTED = "connected"
    SUSPENDED = "suspended"  # the ensemble is unreachable; the session may still exist
    EXPIRED = "expired"  # ephemeral nodes are gone, and a new session has begun


class NodeStore(Protocol):
    """Interface of a metadata store. The module docstring describes the contract."""

    @property
    def on_session(self) -> list[Callable[[SessionState], None]]:
        """Called when the session changes, on the event loop."""

    @property
    def lease_until(self) -> float:
        """Monotonic time until which this store's ephemeral nodes certainly exist."""

    async def open(self) -> None:
        """Open the store. Other calls open it implicitly; an explicit call reveals problems early."""

    async def close(self) -> None:
        """Finish pending writes and release the ephemeral nodes."""

    async def sync(self) -> None:
        """Make all earlier writes, from any client, visible to later reads."""

    async def get(self, path: str) -> Node:
        """Return data and version. Raises NoNode."""

    async def get_many(self, paths: Sequence[str]) -> list[Node | None]:
        """Return data and version of each path in one round trip; None for missing nodes."""

    async def exists(self, path: str) -> Stat | None: ...

    async def children(self, path: str) -> list[str]:
        """Return the sorted names (not paths) of the children."""

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> str:
        """Return the path, including the number of a sequential node."""

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> int:
        """Return the new version."""

    async def delete(self, path: str, version: int = ANY_VERSION) -> None: ...

    async def multi(self, operations: Sequence[Operation]) -> list[Result]:
        """Execute all operations or none. Raises the error of the first one that fails."""

    def watch(self, path: str, callback: Watcher, *, children: bool = False) -> CancelWatch:
        """Call back when the node appears, changes or disappears; with `children`, when a child does."""


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
    try:
        return await store.children(path)
    except NoNode:
        return []


async def ensure_paths(
    store: NodeStore, paths: Sequence[str], data: Mapping[str, bytes] = MappingProxyType({})
) -> None:
    """Create missing paths and their ancestors, empty unless given `data`."""
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
            continue  # another broker created one of them first
        return
