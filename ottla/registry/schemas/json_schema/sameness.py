"""Check whether two schemas are literally equal, following their references."""

from __future__ import annotations

from typing import Any

from ottla.registry.schemas.json_schema.document import Document
from ottla.registry.schemas.json_schema.views import View, frozen

_SILENT = frozenset(
    ("$schema", "$id", "id", "$comment", "$defs", "definitions", "title", "description", "examples")
)


def same(one: View, other: View) -> bool:
    stack: list[tuple[Any, Document, Any, Document]] = [
        (one.keywords, one.document, other.keywords, other.document)
    ]
    compared: set[tuple[int, int]] = set()
    while stack:
        left, left_document, right, right_document = stack.pop()
        if isinstance(left, dict) and isinstance(right, dict):
            if (id(left), id(right)) in compared:
                continue
            compared.add((id(left), id(right)))
            targets = left_document.target(left), right_document.target(right)
            if targets[0] is not None and targets[1] is not None:
                stack.append((*targets[0], *targets[1]))
            elif targets != (None, None):
                return False
            names = {name for name in (*left, *right) if name not in _SILENT and name != "$ref"}
            for name in names:
                if name not in left or name not in right:
                    return False
                stack.append((left[name], left_document, right[name], right_document))
        elif isinstance(left, list) and isinstance(right, list):
            if len(left) != len(right):
                return False
            stack.extend(
                (*pair[:1], left_document, *pair[1:], right_document)
                for pair in zip(left, right, strict=True)
            )
        elif frozen(left) != frozen(right):
            return False
    return True
