"""Disk accidents for a file, chosen by a seeded random generator.

To damage another kind of file, add a row to `KINDS`. The caller that checks the result supplies the data directory.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

# Every kind of file in a data directory. Each kind is damaged equally often, regardless of its number of files.
KINDS: dict[str, str] = {
    "log": r"\d{20}\.log",
    "index": r"\d{20}\.index",
    "time index": r"\d{20}\.timeindex",
    "transaction index": r"\d{20}\.txnindex",
    "snapshot": r"\d{20}\.snapshot",
    "leader epochs": r"leader-epoch-checkpoint",
    "partition metadata": r"partition\.metadata",
    "manifest": r"ottla-segments",
    "recovery points": r"recovery-point-offset-checkpoint",
    "log starts": r"log-start-offset-checkpoint",
    "high watermarks": r"replication-offset-checkpoint",
    "cleaner offsets": r"cleaner-offset-checkpoint",
    "meta.properties": r"meta\.properties",
    "clean shutdown": r"\.kafka_cleanshutdown",
    "live ends": r"\.ottla-live-ends",
    "mark": r"\.ottla",
    "metadata store": r"ottla-metadata\.db",
    "write-ahead log": r"ottla-metadata\.db-wal",
    "commit count": r"ottla-metadata\.db-commits",
}
TEXT = ("checkpoint", "meta.properties", "partition.metadata", "cleanshutdown", "ottla-segments")


@dataclass(frozen=True, slots=True)
class Damage:
    """One accident, and the affected files."""

    kind: str
    files: tuple[Path, ...]
    what: str

    def __str__(self) -> str:
        return f"{self.kind}: {', '.join(str(each) for each in self.files)}: {self.what}"


def files_by_kind(directory: Path) -> dict[str, list[Path]]:
    found: dict[str, list[Path]] = {}
    for path in sorted(directory.rglob("*")):
        kind = next((kind for kind, name in KINDS.items() if re.fullmatch(name, path.name)), None)
        if kind is not None and path.is_file():
            found.setdefault(kind, []).append(path)
    return found


def damage(directory: Path, rng: random.Random, kinds: list[str] | None = None) -> Damage:
    """Damage one file, or swap two."""
    found = files_by_kind(directory)
    kind = rng.choice([each for each in found if kinds is None or each in kinds])
    path = rng.choice(found[kind])
    action = rng.choice(_ACTIONS)
    if action is _swap:
        others = [each for each in found[kind] if each != path]
        if not others or rng.random() < 0.2:
            others = [each for paths in found.values() for each in paths if each != path]
        other = rng.choice(others)
        path_data, other_data = path.read_bytes(), other.read_bytes()
        path.write_bytes(other_data)
        other.write_bytes(path_data)
        return Damage(kind, (path, other), "exchanged")
    what = action(path, rng)
    return Damage(kind, (path,), what)


def _flip(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    if not data:
        return "nothing to flip"
    bits = [rng.randrange(len(data) * 8) for _ in range(rng.choice([1, 1, 1, 2, 5]))]
    if rng.random() < 0.3:  # the end of a file matters most
        bits = [len(data) * 8 - 1 - rng.randrange(min(len(data), 16) * 8)]
    for bit in bits:
        data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)
    return f"flipped bits {bits}"


def _zero(path: Path, rng: random.Random) -> str:
    data = bytearray(path.read_bytes())
    start = rng.randrange(len(data) + 1)
    stop = min(len(data), start + rng.choice([1, 8, 64, 512, 4096, len(data) + 1]))
    data[start:stop] = bytes(stop - start)
    path.write_bytes(data)
    return f"zeroed [{start}, {stop})"


def _truncate(path: Path, rng: random.Random) -> str:
    size = path.stat().st_size
    keep = max(0, size - rng.choice([1, 2, 7, 34, 100, rng.randrange(size + 1)]))
    with path.open("r+b") as file:
        file.truncate(keep)
    return f"cut from {size} to {keep} bytes"


def _empty(path: Path, rng: random.Random) -> str:
    path.write_bytes(b"")
    return "emptied"


def _remove(path: Path, rng: random.Random) -> str:
    path.unlink()
    return "removed"


def _swap(path: Path, rng: random.Random) -> str:
    raise AssertionError("exchanged by `damage`, which knows the other file")


def _enlarge(path: Path, rng: random.Random) -> str:
    """Increase a number: in text with or without the following white space, in binary at any position."""
    data = path.read_bytes()
    if any(name in path.name for name in TEXT):
        numbers = list(re.finditer(rb"\d+", data))
        if not numbers:
            return "no number to enlarge"
        number = rng.choice(numbers)
        larger = b"%d" % (int(number[0]) + rng.choice([1, 3, 100, 10**6, 2**40]))
        data = data[: number.start()] + larger + data[number.end() :]
        if rng.random() < 0.3:
            data = b"\n".join(line.rstrip(b" \t") for line in data.split(b"\n"))
        path.write_bytes(data)
        return f"made {number[0].decode()} at byte {number.start()} {larger.decode()}"
    size = rng.choice([2, 4, 8])
    if len(data) < size:
        return "no number to enlarge"
    at = rng.randrange(len(data) - size + 1)
    if rng.random() < 0.5:
        at -= at % size
    larger_number = int.from_bytes(data[at : at + size], "big") + rng.choice([1, 5, 256, 2**14])
    path.write_bytes(data[:at] + (larger_number % 2 ** (8 * size)).to_bytes(size, "big") + data[at + size :])
    return f"added to the {8 * size} bit number at byte {at}"


_ACTIONS: tuple[Callable[[Path, random.Random], str], ...] = (
    _flip,
    _zero,
    _truncate,
    _empty,
    _remove,
    _swap,
    _enlarge,
)
