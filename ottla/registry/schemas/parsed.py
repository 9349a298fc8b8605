"""Interface of parsed schemas, descriptions of incompatibilities, and deep recursion."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Generator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

# Recursive functions whose depth is limited only by memory.
#
# Schemas that refer to each other may form chains of any length. A function that follows such chains is written as a
# generator: it yields its recursive calls and receives their results.

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


# Interface of parsed schemas, and descriptions of incompatibilities.


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
