"""The formats of keys and values in requests and answers, with schemas of the registry where a format has them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ottla.rest import formats
from ottla.rest.errors import unprocessable
from ottla.rest.formats import Format

_PLAIN = ("binary", "json", "string")


@dataclass(frozen=True)
class Encoder:
    kind: Format
    key_schema_id: int | None = None
    value_schema_id: int | None = None

    def key(self, data: Any) -> bytes | None:
        return formats.encode(data, self.kind)

    def value(self, data: Any) -> bytes | None:
        return formats.encode(data, self.kind)


@dataclass(frozen=True)
class Decoder:
    kind: Format

    async def decode(self, data: bytes | None) -> Any:
        return formats.decode(data, self.kind)


class Embedded:
    async def encoder(self, kind: Format, topic: str, body: dict[str, Any]) -> Encoder:
        return Encoder(self._supported(kind))

    def decoder(self, kind: Format) -> Decoder:
        return Decoder(self._supported(kind))

    def encode_inline(self, kind: Format, part: dict[str, Any]) -> bytes | None:
        """A key or value of v3, which brings its type along."""
        return formats.encode(part.get("data"), self._supported(kind))

    def _supported(self, kind: Format) -> Format:
        if kind not in _PLAIN:
            raise unprocessable(f"The format {kind} needs a schema registry: set schema.registry.url.")
        return kind
