"""Plain JSON to columns with the compiled loop. Other texts are reported as odd."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ottla.records.kernels import input_columns
from ottla.spark.formats.compiled_json import NUMBER, TEXT, TRUTH, WHOLE, fill_texts, parse_objects

_KINDS = {
    **dict.fromkeys(("string", "date", "timestamp", "timestamp_ntz"), TEXT),
    **dict.fromkeys(("byte", "short", "integer", "long"), WHOLE),
    **dict.fromkeys(("float", "double"), NUMBER),
    "boolean": TRUTH,
}
_BITS = {"byte": 8, "short": 16, "integer": 32, "long": 64}
#: The loop tracks seen columns as bits of one word.
_MOST_COLUMNS = 64


class _Fields(NamedTuple):
    """Concatenated field names, the kind of each column, the range of integers, and whether case is ignored."""

    names: Any
    name_ends: Any
    kinds: Any
    limits: Any
    folds: Any


class _Columns(NamedTuple):
    """By column and row: integers and booleans, positions of texts and numbers, and validity."""

    numbers: Any
    starts: Any
    lengths: Any
    valid: Any


class Plain(NamedTuple):
    """Columns like those of Arrow's JSON reader, and a mask of the missing rows."""

    columns: list[pa.Array]
    odd: Any
    odd_count: int


class PlainReader:
    def __init__(self, kind: Any, types: list[pa.DataType], *, folds: bool = False) -> None:
        """Prepare a reader. `types` are the types of the resulting columns; dates and timestamps are strings.

        With `folds`, a name in any case matches an upper-case column.
        """
        names = [field.name.encode() for field in kind.fields]
        fields = [field.dataType.typeName() for field in kind.fields]
        self._types = types
        self._fields = _Fields(
            np.frombuffer(b"".join(names) + b"\0", np.uint8),
            np.cumsum([0, *map(len, names)], dtype=np.int64),
            np.array([_KINDS[name] for name in fields], np.int64),
            np.array([_limits(_BITS.get(name, 64)) for name in fields], np.int64),
            np.int64(folds),
        )

    @staticmethod
    def can_read(kind: Any) -> bool:
        return 0 < len(kind.fields) <= _MOST_COLUMNS and all(
            field.dataType.typeName() in _KINDS for field in kind.fields
        )

    def read(self, texts: pa.BinaryArray) -> Plain:
        rows, width = len(texts), len(self._fields.kinds)
        strings = input_columns.strings(texts)
        parsed = _Columns(
            np.zeros((width, rows), np.int64),
            np.zeros((width, rows), np.int64),
            np.zeros((width, rows), np.int32),
            np.zeros((width, rows), np.uint8),
        )
        odd = np.zeros(rows, np.bool_)
        count = parse_objects(strings, self._fields, parsed, odd)
        columns = [
            _texts(strings.data, parsed.starts[at], parsed.lengths[at], parsed.valid[at], self._types[at])
            if self._fields.kinds[at] in (TEXT, NUMBER)
            else _numbers(parsed.numbers[at], parsed.valid[at], self._types[at])
            for at in range(width)
        ]
        return Plain(columns, odd, int(count))


def _limits(bits: int) -> tuple[int, int]:
    return -(1 << (bits - 1)), (1 << (bits - 1)) - 1


def _validity(valid: Any) -> pa.Buffer | None:
    return None if valid.all() else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _texts(data: Any, starts: Any, lengths: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    rows = len(starts)
    ends = np.empty(rows + 1, np.int32)
    buffer = pa.allocate_buffer(int(lengths.sum(dtype=np.int64)))
    fill_texts(data, starts, lengths, ends, np.frombuffer(buffer, np.uint8))
    texts = pa.Array.from_buffers(pa.string(), rows, [_validity(valid), pa.py_buffer(ends), buffer])
    return texts if kind == pa.string() else texts.cast(kind)


def _numbers(numbers: Any, valid: Any, kind: pa.DataType) -> pa.Array:
    if kind == pa.bool_():
        return pa.array(numbers.astype(np.bool_), mask=None if valid.all() else valid == 0)
    narrow = numbers.astype(kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(numbers), [_validity(valid), pa.py_buffer(narrow)])
