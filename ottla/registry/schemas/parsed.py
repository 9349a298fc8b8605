"""Interface of parsed schemas, and descriptions of incompatibilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any


class InvalidSchema(ValueError):
    """An invalid schema. The message gives reason and place."""


@dataclass(frozen=True)
class Incompatibility:
    """One reason why data of the writer cannot be read with the reader.

    `template` contains `{reader}` and `{writer}`: the direction of the check determines which schema is new.
    """

    type: str
    path: str
    template: str
    additional_info: str = ""
    quote: str = '"'

    @property
    def description(self) -> str:
        """Description for BACKWARD, where the reader is the new schema."""
        return self.described()

    def described(self, *, reader: str = "new", writer: str = "old") -> str:
        return self.template.replace("{reader}", reader).replace("{writer}", writer)

    def message(self, *, reader: str = "new", writer: str = "old") -> str:
        """Return a line of a verbose answer. For FORWARD the reader is the old schema."""
        q = self.quote
        text = (
            f"errorType:{q}{self.type}{q}, description:{q}{self.described(reader=reader, writer=writer)}{q}"
        )
        if self.additional_info or q == "'":
            text += f", additionalInfo:{q}{self.additional_info}{q}"
        return "{" + text + "}"


class ParsedSchema(ABC):
    """A valid immutable schema, with its references by name."""

    schema_type: str
    references: Mapping[str, ParsedSchema]
    raw: Any
    """Parsed schema; its class depends on the schema type."""

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The stored text."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """The text shared by all spellings of the same schema (`normalize=true`)."""

    def formatted(self, format: str) -> str:
        """Return the text for `?format=`. An unknown format yields the stored text."""
        return self.canonical

    @property
    @abstractmethod
    def fields(self) -> Collection[str]:
        """The names of the top-level fields or properties."""

    @abstractmethod
    def check(self, writer: Any, policy: str = "STRICT") -> list[Incompatibility]:
        """Return why data of `writer`, a schema of the same type, cannot be read with this one."""
