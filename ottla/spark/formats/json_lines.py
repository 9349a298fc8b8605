"""JSON texts as lines for Arrow's reader.

Each line holds one text that starts and ends with a brace. So every line yields at least one row, and no row spans
lines. If there are as many rows as lines, row and line numbers agree.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ottla.records.kernels import input_columns

try:
    from ottla.spark.formats.compiled_json import fill_lines
except ModuleNotFoundError as error:
    if error.name != "numba":
        raise
    fill_lines = None  # type: ignore[assignment]

_BLANK = b" \t\n\r"
_ENDS_OF_LINES = bytes.maketrans(b"\n\r", b"\t\t")


def lines(texts: pa.BinaryArray) -> pa.Buffer | None:
    """Return the lines, or None if a text lacks braces. A null becomes an empty object."""
    if fill_lines is None:
        return _slow_lines(texts)
    strings = input_columns.strings(texts)
    # A null needs three bytes: braces and a line break.
    room = int(strings.ends[-1] - strings.ends[0]) + len(texts) + 2 * texts.null_count
    buffer = pa.allocate_buffer(room)
    size = int(fill_lines(strings, np.frombuffer(buffer, np.uint8)))
    return buffer.slice(0, size) if size else None


def _slow_lines(texts: pa.BinaryArray) -> pa.Buffer | None:
    found = []
    for text in texts.to_pylist():
        line = b"{}" if text is None else text.strip(_BLANK)
        if not (len(line) > 1 and line.startswith(b"{") and line.endswith(b"}")):
            return None
        found.append(line.translate(_ENDS_OF_LINES))
    return pa.py_buffer(b"\n".join(found) + b"\n")
