"""What every format has in common: a parsed schema, and what is said about one that cannot read another."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class InvalidSchema(ValueError):
    """The text is no schema of its type; the message says what is wrong and where."""


@dataclass(frozen=True)
class Incompatibility:
    """One reason why data of the writer cannot be read with the reader.

    `template` has `{reader}` and `{writer}` where the two schemas are named: which of them is the new one depends
    on the direction of the check.
    """

    type: str
    path: str
    template: str
    additional_info: str = ""
    quote: str = '"'

    @property
    def description(self) -> str:
        """The description when the reader is the new schema, as it is for BACKWARD."""
        return self.described()

    def described(self, *, reader: str = "new", writer: str = "old") -> str:
        return self.template.replace("{reader}", reader).replace("{writer}", writer)

    def message(self, *, reader: str = "new", writer: str = "old") -> str:
        """The line of a verbose answer. For FORWARD the reader is the old schema, and the writer the new one."""
        q = self.quote
        text = (
            f"errorType:{q}{self.type}{q}, description:{q}{self.described(reader=reader, writer=writer)}{q}"
        )
        if self.additional_info or q == "'":
            text += f", additionalInfo:{q}{self.additional_info}{q}"
        return "{" + text + "}"


class ParsedSchema(ABC):
    """A valid schema with the schemas it refers to, by the names it uses for them. Never changes."""

    schema_type: str
    references: Mapping[str, ParsedSchema]
    raw: Any
    """The parsed form: what it is depends on the type."""

    @property
    @abstractmethod
    def canonical(self) -> str:
        """The text that is stored."""

    @property
    @abstractmethod
    def normalized(self) -> str:
        """The text that all spellings of the same schema have in common (`normalize=true`)."""

    def formatted(self, format: str) -> str:
        """The text for `?format=`. A format that this type does not know gives the stored text."""
        return self.canonical

    @abstractmethod
    def check(self, writer: Any, policy: str = "STRICT") -> list[Incompatibility]:
        """Why data of `writer`, a schema of the same type, cannot be read with this one."""
