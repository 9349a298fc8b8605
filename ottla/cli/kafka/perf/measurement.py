"""Shared parts of the measuring tools: random records, and figures in Kafka's format."""

from __future__ import annotations

import random
import re
import string
from collections.abc import Callable
from datetime import datetime

from ottla.cli.errors import JobError

MB = 1024 * 1024
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
        parts = []
        for token in tokens:
            if token[0] == "'":
                parts.append(token[1:-1].replace("''", "'") or "'")
            elif token[0] == "S":
                parts.append(f"{int(moment * 1000) % 1000:0{len(token)}d}")
            elif token[0] in _LETTERS:
                value = _LETTERS[token[0]](at)
                parts.append(f"{value % 100:02d}" if token == "yy" else f"{value:0{len(token)}d}")
            else:
                parts.append(token)
        return "".join(parts)

    return write


def letters(length: int) -> bytes:
    return "".join(random.choices(string.ascii_uppercase, k=length)).encode()


def print_metrics(metrics: dict[str, float], client_id: str, kind: str) -> None:
    names = {name: f"{kind}:{name}:{{client-id={client_id}}}" for name in sorted(metrics)}
    width = max(map(len, names.values()))
    print(f"\n{'Metric Name':<{width}}   Value")
    for name, shown in names.items():
        print(f"{shown:<{width}} : {metrics[name]:.3f}")
