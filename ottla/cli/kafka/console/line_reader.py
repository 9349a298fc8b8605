"""Lines as `kafka-console-producer` reads them: headers, key and value with separators between."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

from ottla.cli.errors import JobError
from ottla.cli.jobs.messages import Headers, OutgoingMessage


@dataclass(frozen=True, slots=True)
class LineReader:
    parse_key: bool = False
    key_separator: bytes = b"\t"
    parse_headers: bool = False
    headers_delimiter: bytes = b"\t"
    headers_separator: bytes = b","
    headers_key_separator: bytes = b":"
    ignore_error: bool = False
    null_marker: bytes | None = None

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> LineReader:
        def flag(name: str) -> bool:
            return properties.get(name, "").strip().lower() == "true"

        marker = properties.get("null.marker")
        reader = cls(
            flag("parse.key"),
            properties.get("key.separator", "\t").encode(),
            flag("parse.headers"),
            properties.get("headers.delimiter", "\t").encode(),
            properties.get("headers.separator", ",").encode(),
            properties.get("headers.key.separator", ":").encode(),
            flag("ignore.error"),
            None if marker is None else marker.encode(),
        )
        reader.check()
        return reader

    def check(self) -> None:
        names = {
            "headers.delimiter": self.headers_delimiter,
            "headers.separator": self.headers_separator,
            "headers.key.separator": self.headers_key_separator,
        }
        if self.null_marker is not None:
            names = {"null.marker": self.null_marker, "key.separator": self.key_separator, **names}
        for one, other in combinations(names, 2):
            if names[one] == names[other] and one != "key.separator":
                raise JobError(f"{one} and {other} may not be equal")

    def messages(self, lines: Iterable[bytes]) -> Iterator[OutgoingMessage]:
        for number, raw in enumerate(lines, 1):
            line = raw.removesuffix(b"\n").removesuffix(b"\r")
            if self.parse_key or self.parse_headers:
                yield self._parse(line, number)
            else:
                yield OutgoingMessage(self._or_null(line))

    def _parse(self, line: bytes, number: int) -> OutgoingMessage:
        headers: Headers = ()
        key: bytes | None = None
        rest = line
        if self.parse_headers:
            text, rest = self._split(rest, self.headers_delimiter, "headers delimiter", line, number)
            if text is not None and text != self.null_marker:
                headers = [self._header(pair, number) for pair in self._pairs(text)]
        if self.parse_key:
            text, rest = self._split(rest, self.key_separator, "key separator", line, number)
            key = self._or_null(text)
        return OutgoingMessage(self._or_null(rest), key, headers)

    def _pairs(self, text: bytes) -> list[bytes]:
        pairs = text.split(self.headers_separator)
        while len(pairs) > 1 and not pairs[-1]:
            pairs.pop()
        return pairs

    def _split(
        self, text: bytes, separator: bytes, what: str, line: bytes, number: int
    ) -> tuple[bytes | None, bytes]:
        if not separator:
            return b"", text
        before, found, after = text.partition(separator)
        if found:
            return before, after
        if self.ignore_error:
            return None, text
        shown = line.decode(errors="replace")
        raise JobError(f"No {what} found on line number {number}: '{shown}'")

    def _header(self, pair: bytes, number: int) -> tuple[str, bytes | None]:
        name, found, value = pair.partition(self.headers_key_separator)
        if not found and not self.ignore_error:
            shown = pair.decode(errors="replace")
            raise JobError(f"No header key separator found in pair '{shown}' on line number {number}")
        return name.decode(errors="replace"), self._or_null(value) if found else None

    def _or_null(self, text: bytes | None) -> bytes | None:
        return None if text is None or text == self.null_marker else text
