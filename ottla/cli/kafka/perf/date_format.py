"""Moments in the notation of Java's SimpleDateFormat, which the measuring tools take."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime

from ottla.cli.errors import JobError

DATE_FORMAT = "yyyy-MM-dd HH:mm:ss:SSS"

_LETTERS: dict[str, Callable[[datetime], int]] = {
    "y": lambda at: at.year,
    "M": lambda at: at.month,
    "d": lambda at: at.day,
    "H": lambda at: at.hour,
    "m": lambda at: at.minute,
    "s": lambda at: at.second,
}


def date_format(pattern: str) -> Callable[[float], str]:
    """Java's SimpleDateFormat, as far as numbers go: letters mean something, text is in quotes."""
    tokens = [found[0] for found in re.finditer(r"'(?:[^']|'')*'|([A-Za-z])\1*|[^A-Za-z']+", pattern)]
    for token in tokens:
        if token[0].isalpha() and token[0] not in _LETTERS and token[0] != "S":
            raise JobError(f"Illegal pattern character '{token[0]}' in --date-format: use y M d H m s S.")

    def write(moment: float) -> str:
        at = datetime.fromtimestamp(moment)
        written = []
        for token in tokens:
            if token[0] == "'":
                written.append(token[1:-1].replace("''", "'") or "'")
            elif token[0] == "S":
                written.append(f"{int(moment * 1000) % 1000:0{len(token)}d}")
            elif token[0] in _LETTERS:
                value = _LETTERS[token[0]](at)
                written.append(f"{value % 100:02d}" if token == "yy" else f"{value:0{len(token)}d}")
            else:
                written.append(token)
        return "".join(written)

    return write
