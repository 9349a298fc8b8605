"""Oracles that must be imported before warnings become errors, and random messages."""

from __future__ import annotations

import random
import warnings
from collections.abc import Callable
from typing import Any

import pytest

from ottla.protocol.codec import Field, Struct

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401  (kafka-python reads its schemas with a deprecated call)

RANGES = {"int8": (-128, 127), "uint16": (0, 65535)} | {
    f"int{bits}": (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64)
}


class _Maker:
    def __init__(self, version: int, seed: object) -> None:
        self.version = version
        self.random = random.Random(f"{version} {seed}")
        self.depth = 0

    def struct(self, cls: type[Struct]) -> Any:
        return cls(
            **{
                name: self.field(field)
                for name, field in cls.fields.items()
                if field.versions[0] <= self.version <= field.versions[1]
            }
        )

    def field(self, field: Field) -> Any:
        choose = self.random
        if field.nullable[0] <= self.version <= field.nullable[1] and choose.random() < 0.25:
            return None
        if field.kind == "array":
            self.depth += 1
            made = [self.element(field) for _ in range(choose.randint(0, max(1, 4 - self.depth)))]
            self.depth -= 1
            return made
        if field.kind == "struct":
            return self.struct(field.struct)  # type: ignore[arg-type]
        return self.plain(field.kind)

    def element(self, field: Field) -> Any:
        return self.struct(field.struct) if field.struct is not None else self.plain(field.element.kind)  # type: ignore[union-attr]

    def plain(self, kind: str) -> Any:
        choose = self.random
        if kind in RANGES:
            low, high = RANGES[kind]
            return choose.choice([0, 1, low, high, choose.randint(low, high)])
        if kind == "string":
            return choose.choice(["", "a", "größe", "x" * 127, "topic"])
        if kind == "boolean":
            return choose.random() < 0.5
        if kind == "float64":
            return choose.choice([0.0, 1.5])
        return choose.randbytes(16 if kind == "uuid" else choose.choice([0, 1, 130]))


@pytest.fixture(scope="session")
def random_message() -> Callable[[type[Struct], int, object], Any]:
    """Return a random message; the same seed gives the same message in every run."""
    return lambda cls, version, seed: _Maker(version, seed).struct(cls)
