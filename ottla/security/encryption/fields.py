"""Change single fields of a JSON object in its text. All other bytes stay the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ottla.security.encryption.key_provider import EncryptionError

#: Gets a field's path and text, and returns the new text.
Change = Callable[[str, str], str]
# Field name → its path if selected, or the selected fields inside.
_Wanted = dict[str, Any]

_BLANK = re.compile(r"[ \t\n\r]*")
_DECODER = json.JSONDecoder()
_MOST = 255
_LONGEST = 1000


class NotAnObject(ValueError):
    """The text, or the parent of a field, is not a JSON object."""


class FieldPaths:
    """Selected fields: names, or dotted paths through objects (`address.street`)."""

    def __init__(self, paths: Sequence[str]) -> None:
        self.paths = tuple(dict.fromkeys(paths))
        self._wanted: _Wanted = {}
        if len(self.paths) > _MOST:
            raise EncryptionError(f"At most {_MOST} fields can be encrypted, not {len(self.paths)}.")
        for path in self.paths:
            self._add(path)

    def _add(self, path: str) -> None:
        *parents, last = path.split(".")
        if not all((*parents, last)) or len(path) > _LONGEST:
            raise EncryptionError(f"'{path}' is not the name of a field: write name, or name.name.")
        inner = self._wanted
        for name in parents:
            inner = inner.setdefault(name, {})
            if isinstance(inner, str):
                raise EncryptionError(
                    f"The field '{path}' is a part of '{inner}', which is encrypted as a whole."
                )
        if inner.setdefault(last, path) != path:
            raise EncryptionError(f"The field '{path}' is encrypted as a whole: do not name fields of it.")

    def change(self, text: str, change: Change) -> str:
        """Change each occurrence of a selected field unless it is null."""
        try:
            return _Walk(text, change).run(self._wanted)
        except NotAnObject:
            raise
        except (ValueError, IndexError, RecursionError):
            pass
        raise NotAnObject("it is not a JSON object")


class _Walk:
    def __init__(self, text: str, change: Change) -> None:
        self._text = text
        self._change = change
        self._pieces: list[str] = []
        self._copied = 0

    def run(self, wanted: _Wanted) -> str:
        end = self._blank(self._object(self._blank(0), wanted))
        if end != len(self._text):
            raise NotAnObject("something follows the JSON object")
        return "".join((*self._pieces, self._text[self._copied :]))

    def _blank(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        assert found is not None
        return found.end()

    def _expect(self, sign: str, at: int) -> int:
        if self._text[at] != sign:
            raise ValueError
        return at + 1

    def _object(self, at: int, wanted: _Wanted) -> int:
        at = self._blank(self._expect("{", at))
        if self._text[at] == "}":
            return at + 1
        while True:
            self._expect('"', at)
            name, at = _DECODER.raw_decode(self._text, at)
            at = self._value(self._blank(self._expect(":", self._blank(at))), wanted.get(name))
            at = self._blank(at)
            if self._text[at] == "}":
                return at + 1
            at = self._blank(self._expect(",", at))

    def _value(self, at: int, wanted: str | _Wanted | None) -> int:
        if isinstance(wanted, dict) and self._text[at] == "{":
            return self._object(at, wanted)
        value, end = _DECODER.raw_decode(self._text, at)
        if wanted is None or value is None:
            return end
        if isinstance(wanted, dict):
            # The value here may contain the data to be encrypted.
            raise NotAnObject(f"the parent of its field {_any_path(wanted)} is not an object")
        self._pieces += (self._text[self._copied : at], self._change(wanted, self._text[at:end]))
        self._copied = end
        return end


def _any_path(wanted: _Wanted) -> str:
    first = next(iter(wanted.values()))
    return first if isinstance(first, str) else _any_path(first)
