"""Recursive functions whose depth is limited only by memory.

Schemas that refer to each other may form chains of any length. A function that follows such chains is written as a
generator: it yields its recursive calls and receives their results.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

R = TypeVar("R")
Steps = Generator[Generator[Any, Any, Any], Any, R]


def run(first: Steps[R]) -> R:
    """Run `first` and every call that it and its callees yield."""
    stack: list[Generator[Any, Any, Any]] = [first]
    result: Any = None
    while stack:
        try:
            call = stack[-1].send(result)
        except StopIteration as returned:
            stack.pop()
            result = returned.value
        else:
            stack.append(call)
            result = None
    return result  # type: ignore[no-any-return]
