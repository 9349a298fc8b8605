"""Sizes and rates as people write them: 500MB, 1.5GiB, 1Gbit."""

from __future__ import annotations

import re

import click

_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kKMGT]?)(i?)(B|bit)?(?:/s)?")
_POWERS = {"": 0, "k": 1, "K": 1, "M": 2, "G": 3, "T": 4}


def parse_size(text: str) -> float:
    """Return bytes. Raises ValueError for an invalid size."""
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"'{text}' is not a size. Use 500MB, 10GiB or 1Gbit")
    number, prefix, binary, unit = found.groups()
    size: float = float(number) * (1024 if binary else 1000) ** _POWERS[prefix]
    return size / 8 if unit == "bit" else size


def size_parameter(text: str) -> float:
    try:
        return parse_size(text)
    except ValueError as error:
        raise click.BadParameter(f"{error}.") from None
