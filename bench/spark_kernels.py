"""`python -m bench.spark_kernels`: millions of records per second of the kernels under the Spark source and sink.

Each figure is the best of several runs on one core over some megabytes of records, and everything is in it:
checksums, compression, and building the Arrow arrays or the batches.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
from rich.console import Console
from rich.table import Table

from ottla.protocol.records import Codec, Record, build_batch
from ottla.records import kernels
from ottla.records.kernels import reference
from ottla.records.kernels.record_columns import HEADERS_TYPE

SIZES = (100, 1000)
CODECS = (Codec.NONE, Codec.LZ4, Codec.ZSTD)
TOTAL_BYTES = 4_000_000
BATCH_BYTES = 250_000
HEADERS = [("trace", b"0123456789abcdef"), ("source", b"bench")]
EVERYTHING = 2**62


def values_of(size: int, count: int) -> list[bytes]:
    words = np.random.default_rng(7).integers(97, 123, size * 8, np.uint8).tobytes()
    return [b"%08d" % number + words[number % (7 * size) :][: size - 8] for number in range(count)]


def rate(count: int, run: Callable[[], object], seconds: float = 0.6) -> float:
    """Millions per second."""
    run()
    best = float("inf")
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - start)
    return count / best / 1e6


def decoding_rate(values: list[bytes], codec: Codec, headers: bool) -> float:
    per_batch = max(BATCH_BYTES // len(values[0]), 1)
    data = bytearray()
    for first in range(0, len(values), per_batch):
        records = [
            Record(0, 1_700_000_000_000 + at, b"key-%04d" % (at % 1000), value, HEADERS if headers else ())
            for at, value in enumerate(values[first : first + per_batch])
        ]
        data += build_batch(records, base_offset=first, codec=codec)
    return rate(len(values), lambda: kernels.decode(data, start=0, end=EVERYTHING, with_headers=headers))


def encoding_rate(values: list[bytes], codec: Codec, headers: bool) -> float:
    count = len(values)
    keys = pa.array([b"key-%04d" % (at % 1000) for at in range(count)])
    column = pa.array(values)
    pairs = [{"key": key, "value": value} for key, value in HEADERS]
    lists = pa.array([pairs] * count, HEADERS_TYPE) if headers else None

    def run() -> None:
        encoder = kernels.Encoder(keys, column, lists, None)
        seal = kernels.Seal(codec, None, -1, -1, -1, False)
        for _, rows in kernels.rows_by_partition(kernels.partition_for(keys, 4)):
            encoder.encode(rows, kernels.MAX_BATCH_BYTES, seal)

    return rate(count, run)


def first_call_milliseconds() -> float:
    """Decoding one record in a new process, importing the package included."""
    code = (
        "import time; start = time.perf_counter()\n"
        "from ottla.records import kernels\n"
        f"kernels.decode({bytes(build_batch([Record(0, 1, b'k', b'v')]))!r}, start=0, end=1, with_headers=False)\n"
        "print(1000 * (time.perf_counter() - start))"
    )
    return min(float(subprocess.check_output([sys.executable, "-c", code])) for _ in range(3))


def main() -> None:
    table = Table(title="Kernels: M records/s on one core, keys of 8 bytes, encoding into 4 partitions")
    for column in ("value", "codec", "headers", "decode", "encode", "decode, reference", "encode, reference"):
        table.add_column(column, justify="right")
    compiled = kernels.decoding, kernels.encoding
    for size in SIZES:
        values = values_of(size, TOTAL_BYTES // size)
        for codec in CODECS:
            for headers in (False, True) if codec == Codec.NONE else (False,):
                figures = []
                for decoding, encoding in (compiled, (reference, reference)):
                    kernels.decoding, kernels.encoding = decoding, encoding
                    figures.append(f"{decoding_rate(values, codec, headers):.2f}")
                    figures.append(f"{encoding_rate(values, codec, headers):.2f}")
                kernels.decoding, kernels.encoding = compiled
                table.add_row(f"{size} B", codec.name.lower(), "2" if headers else "none", *figures)
    Console(width=110).print(table)
    print(f"First call in a new process, imports included: {first_call_milliseconds():.0f} ms")


if __name__ == "__main__":
    main()
