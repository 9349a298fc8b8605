"""``python -m bench.encryption``: records that one core encrypts and decrypts in a second. Best of several rounds.

Time on the processor is what counts: nothing here waits, and so other work on the machine disturbs it less.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from ottla.encryption import Decryptor, Encryptor, KeyFile, make_key_file

ROUNDS = 5
RECORDS = 20_000
SIZES = {"100 B": 100, "1 KB": 1000}


def per_second(work: Callable[[], None]) -> float:
    best = float("inf")
    for _ in range(ROUNDS):
        started = time.process_time()
        for _ in range(RECORDS):
            work()
        best = min(best, time.process_time() - started)
    return RECORDS / best


def rows(keys: KeyFile) -> list[tuple[str, float, float]]:
    found = []
    for title, size in SIZES.items():
        encryptor, decryptor = Encryptor(keys), Decryptor(keys)
        value = b"x" * size
        sealed, headers = encryptor.encrypt("t", value)
        found.append(
            (
                f"whole values of {title}",
                per_second(lambda encryptor=encryptor, value=value: encryptor.encrypt("t", value)),
                per_second(lambda d=decryptor, s=sealed, h=headers: d.decrypt("t", s, h)),
            )
        )
        fields = Encryptor(keys, fields=["card"])
        text = b'{"card": "4111", "text": "%s"}' % (b"x" * (size - 30))
        sealed, headers = fields.encrypt("t", text)
        found.append(
            (
                f"one field of JSON of {title}",
                per_second(lambda fields=fields, text=text: fields.encrypt("t", text)),
                per_second(lambda d=decryptor, s=sealed, h=headers: d.decrypt("t", s, h)),
            )
        )
    return found


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        make_key_file(Path(folder, "keys.json"))
        table = Table("records/s", "encrypt", "decrypt", title="Encryption of values, one core")
        for column in table.columns[1:]:
            column.justify = "right"
        for title, encrypted, decrypted in rows(KeyFile(Path(folder, "keys.json"))):
            table.add_row(title, f"{encrypted:,.0f}", f"{decrypted:,.0f}")
    Console().print(table)


if __name__ == "__main__":
    main()
