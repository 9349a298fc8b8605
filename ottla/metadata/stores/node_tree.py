"""Rules of the node tree as pure data: nodes, a view of uncommitted changes, and single operations."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol

from ottla.metadata.stores.store import (
    ANY_VERSION,
    BadVersion,
    Check,
    Create,
    Delete,
    EphemeralParent,
    NodeExists,
    NoNode,
    NotEmpty,
    Operation,
    Result,
    Set,
    check_path,
    parent_of,
)


class TreeNode(NamedTuple):
    data: bytes
    version: int
    czxid: int
    ephemeral: bool = False
    next_sequence: int = 0


ROOT = TreeNode(b"", 0, 0)


class Readable(Protocol):
    def node(self, path: str) -> TreeNode | None: ...

    def child_count(self, path: str) -> int: ...


class Tree:
    """The committed nodes. Invariant: every node except the root has its parent here. Owner: the event loop."""

    def __init__(self) -> None:
        self.nodes: dict[str, TreeNode] = {"/": ROOT}
        self.child_names: dict[str, set[str]] = {"/": set()}

    def node(self, path: str) -> TreeNode | None:
        return self.nodes.get(path)

    def child_count(self, path: str) -> int:
        return len(self.child_names.get(path, ()))

    def load(self, path: str, node: TreeNode) -> None:
        """Load a node from disk, in any order: a parent may follow its children."""
        self.nodes[path] = node
        if path != "/":
            self.child_names.setdefault(parent_of(path), set()).add(path[path.rindex("/") + 1 :])
        self.child_names.setdefault(path, set())

    def apply(self, view: View) -> Changes:
        changes = Changes()
        for path, node in view.changes.items():
            before = self.nodes.get(path)
            if node is None:
                if before is not None:
                    del self.nodes[path], self.child_names[path]
                    self.child_names[parent_of(path)].discard(path[path.rindex("/") + 1 :])
            else:
                self.load(path, node)
            changes.note(path, before, node)
        return changes


class Changes:
    """Paths whose watchers have to be called."""

    def __init__(self) -> None:
        self.nodes: set[str] = set()
        self.children_of: set[str] = set()

    def note(self, path: str, before: TreeNode | None, after: TreeNode | None) -> None:
        existed, exists = before is not None, after is not None
        if existed != exists:
            self.nodes.add(path)
            self.children_of.update((path, parent_of(path)))
        elif before and after and (before.version, before.czxid) != (after.version, after.czxid):
            # A moved sequence counter does not count as a change for watchers of the parent.
            self.nodes.add(path)


class View:
    """Changes on top of a tree or another view, invisible to others until applied."""

    def __init__(self, base: Readable) -> None:
        self.base = base
        self.changes: dict[str, TreeNode | None] = {}
        self.child_delta: dict[str, int] = {}

    def node(self, path: str) -> TreeNode | None:
        return self.changes[path] if path in self.changes else self.base.node(path)

    def child_count(self, path: str) -> int:
        return self.base.child_count(path) + self.child_delta.get(path, 0)

    def put(self, path: str, node: TreeNode | None) -> None:
        delta = (node is not None) - (self.node(path) is not None)
        if delta:
            parent = parent_of(path)
            self.child_delta[parent] = self.child_delta.get(parent, 0) + delta
        # Remove and append the path, so that a recreated parent precedes its children.
        self.changes.pop(path, None)
        self.changes[path] = node

    def absorb(self, view: View) -> None:
        for path, node in view.changes.items():
            self.put(path, node)


def apply_operation(view: View, operation: Operation, next_zxid: Callable[[], int]) -> Result:
    path = operation.path
    check_path(path)
    if isinstance(operation, Create):
        return _create(view, operation, next_zxid)
    node = view.node(path)
    if node is None:
        raise NoNode(path)
    if operation.version not in (ANY_VERSION, node.version):
        raise BadVersion(path)
    match operation:
        case Set():
            view.put(path, node._replace(data=operation.data, version=node.version + 1))
            return node.version + 1
        case Delete():
            if view.child_count(path) or path == "/":
                raise NotEmpty(path)
            view.put(path, None)
        case Check():
            pass
    return None


def _create(view: View, operation: Create, next_zxid: Callable[[], int]) -> str:
    path = operation.path
    if path == "/":
        raise NodeExists(path)
    parent_path = parent_of(path)
    parent = view.node(parent_path)
    if parent is None:
        raise NoNode(parent_path)
    if parent.ephemeral:
        raise EphemeralParent(parent_path)
    if operation.sequential:
        path = f"{path}{parent.next_sequence:010d}"
        view.put(parent_path, parent._replace(next_sequence=parent.next_sequence + 1))
    if view.node(path) is not None:
        raise NodeExists(path)
    view.put(path, TreeNode(operation.data, 0, next_zxid(), operation.ephemeral))
    return path
