"""An Avro schema of the registry."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cached_property

from ottla.registry.schemas.avro.compatibility import check_types
from ottla.registry.schemas.avro.parser import parse_types
from ottla.registry.schemas.avro.types import AvroType, Named, Record, to_text
from ottla.registry.schemas.json_text import load
from ottla.registry.schemas.parsed import Incompatibility, InvalidSchema, ParsedSchema


class AvroSchema(ParsedSchema):
    schema_type = "AVRO"
    raw: AvroType

    def __init__(
        self,
        raw: AvroType,
        defined: Mapping[str, Named],
        known: Mapping[str, Named],
        references: Mapping[str, ParsedSchema],
    ) -> None:
        self.raw = raw
        self.references = references
        self.known = known
        self.named_types: dict[str, Named] = {**known, **defined}

    @cached_property
    def canonical(self) -> str:
        return to_text(self.raw, set(self.known))

    @cached_property
    def normalized(self) -> str:
        return to_text(self.raw, set(self.known), sort=True)

    def formatted(self, format: str) -> str:
        """`resolved` defines types of other subjects at their first use."""
        return to_text(self.raw, set()) if format == "resolved" else self.canonical

    @property
    def fields(self) -> Collection[str]:
        return [field.name for field in self.raw.fields] if isinstance(self.raw, Record) else []

    def check(self, writer: AvroSchema, policy: str = "STRICT") -> list[Incompatibility]:
        return check_types(self.raw, writer.raw)


def parse_avro(text: str, references: Mapping[str, ParsedSchema], *, stored: bool = False) -> AvroSchema:
    known: dict[str, Named] = {}
    for name, reference in references.items():
        if not isinstance(reference, AvroSchema):
            raise InvalidSchema(f"the reference {name} is of type {reference.schema_type}, not AVRO")
        known.update(reference.named_types)
    raw, defined = parse_types(load(text, comments=True), known, check_defaults=not stored)
    schema = AvroSchema(raw, defined, known, references)
    # A schema that cannot be printed cannot be stored.
    _ = schema.canonical
    return schema
