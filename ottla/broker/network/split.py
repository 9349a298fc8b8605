"""Splitting of large requests with independent entries, and merging of their responses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from ottla.broker.network.slow_lane import SLICE
from ottla.protocol.codec import Request, Response, Struct

S = TypeVar("S", bound=Struct)


class Split:
    """An API module declares `SPLIT = Split("topics.partitions", "topics.partitions")` to split large requests.

    The handler receives parts of at most `size` partitions in order. The response merges a split topic again. `or_else`
    applies if the request's list of that name is empty.
    """

    def __init__(
        self, request: str, response: str, *, size: int = SLICE, or_else: Split | None = None
    ) -> None:
        self._request = tuple(request.split("."))
        self._response = tuple(response.split("."))
        self._size = size
        self._or_else = or_else

    def parts(self, request: Request) -> Iterator[tuple[Request, int]]:
        """Yield the parts of a request, each with the depth to which it continues an entry of the previous part."""
        split = self._of(request, self._request)
        for part, _, depth in split._pieces(request, split._request):
            yield part, depth

    def _of(self, message: Struct, path: tuple[str, ...]) -> Split:
        return self if self._or_else is None or getattr(message, path[0]) else self._or_else

    def _pieces(self, holder: S, path: tuple[str, ...]) -> Iterator[tuple[S, int, int]]:
        """Yield partial copies of a struct, their entry count, and the depth to which they continue the last one."""
        name, inner = path[0], path[1:]
        entries: list[Any] | None = getattr(holder, name)
        size = self._size
        if not entries:
            yield holder, 1, 0
        elif not inner:
            for at in range(0, len(entries), size):
                some = entries[at : at + size]
                yield _copy(holder, name, some), len(some), 1 if at else 0
        else:
            taken: list[Any] = []
            is_first, weight, depth = True, 0, 0
            for entry in entries:
                for piece, count, continued in self._pieces(entry, inner):
                    if taken and weight + count > size:
                        yield _copy(holder, name, taken), weight, 0 if is_first else 1 + depth
                        is_first, taken, weight = False, [], 0
                    if not taken:
                        depth = continued
                    taken.append(piece)
                    weight += count
            yield _copy(holder, name, taken), weight, 0 if is_first else 1 + depth

    def merge(self, whole: Response, answer: Response, depth: int) -> None:
        path = self._of(whole, self._response)._response
        for name, field in type(whole).fields.items():
            mine, theirs = getattr(whole, name), getattr(answer, name)
            if name == path[0]:
                _extend(whole, answer, path, depth)
            elif field.kind == "array" and mine is not None and theirs:
                mine += [each for each in theirs if each not in mine]  # for example endpoints
            elif name == "throttle_time_ms":
                whole.throttle_time_ms = max(mine, theirs)  # type: ignore[attr-defined]
            elif name in ("error_code", "error_message") and not mine:
                setattr(whole, name, theirs)


def _extend(whole: Struct, answer: Struct, path: tuple[str, ...], depth: int) -> None:
    mine, theirs = getattr(whole, path[0]), getattr(answer, path[0])
    if not theirs:
        return
    if mine is None:
        setattr(whole, path[0], theirs)
        return
    if depth > 1 and mine and len(path) > 1 and _is_same(mine[-1], theirs[0]):
        _extend(mine[-1], theirs[0], path[1:], depth - 1)
        theirs = theirs[1:]
    mine += theirs


def _is_same(one: Struct, other: Struct) -> bool:
    fields = type(one).fields.items()
    names = [name for name, field in fields if field.kind in ("string", "uuid") and name != "error_message"]
    return all(getattr(one, name) == getattr(other, name) for name in names)


def _copy(holder: S, name: str, entries: list[Any]) -> S:
    copy = object.__new__(type(holder))
    for field in type(holder).fields:
        setattr(copy, field, entries if field == name else getattr(holder, field))
    return copy
