"""Compiled loops over JSON texts: plain objects to columns, and texts to lines.

A plain object has only strings without escapes, numbers, booleans and nulls. Every other text is odd and left to slower
readers. Accepted texts are validated to the last byte. `kernels.input_columns` describes the input.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled, compiled_inline, copy_bytes

#: Kinds of columns: strings, integers, booleans, or numbers kept as text.
TEXT, WHOLE, TRUTH, NUMBER = range(4)

_0, _1, _2, _3, _4, _5 = map(np.uint64, range(6))
_TEN = np.int64(10)
_MOST_DIGITS = np.uint64(18)

_TAB, _NEWLINE, _RETURN, _SPACE, _QUOTE, _ESCAPE = np.frombuffer(b'\t\n\r "\\', np.uint8)
_OPEN, _CLOSE, _COLON, _COMMA, _MINUS, _PLUS, _POINT = np.frombuffer(b"{}:,-+.", np.uint8)
_ZERO, _NINE, _SMALL_E, _LARGE_E = np.frombuffer(b"09eE", np.uint8)
_A, _E, _F, _L, _N, _R, _S, _T, _U, _Z = np.frombuffer(b"aeflnrstuz", np.uint8)
_CASE = np.uint8(32)


@compiled_inline
def _is_blank(byte: Any) -> Any:
    return (byte == _SPACE) | (byte == _NEWLINE) | (byte == _TAB) | (byte == _RETURN)


@compiled_inline
def _skip_blank(data: Any, at: Any, end: Any) -> Any:
    while at < end and _is_blank(data[at]):
        at += _1
    return at


@compiled_inline
def _end_of_text(data: Any, at: Any, end: Any) -> Any:
    """Return the position of the closing quote, or `end` if it is missing or an escape or control character precedes
    it.
    """
    while at < end:
        byte = data[at]
        if byte == _QUOTE:
            return at
        if (byte == _ESCAPE) | (byte < _SPACE):
            return end
        at += _1
    return end


@compiled_inline
def _digits(data: Any, at: Any, end: Any) -> Any:
    while at < end and _ZERO <= data[at] <= _NINE:
        at += _1
    return at


@compiled
def _end_of_number(data: Any, at: Any, end: Any) -> Any:
    """Return the end of a number and whether it is an integer. Invalid numbers have no end."""
    if data[at] == _MINUS:
        at += _1
    first = at
    at = _digits(data, at, end)
    if at == first or (data[first] == _ZERO and at - first > _1):
        return end + _1, False
    whole = True
    if at < end and data[at] == _POINT:
        whole = False
        first = at + _1
        at = _digits(data, first, end)
        if at == first:
            return end + _1, False
    if at < end and ((data[at] == _SMALL_E) | (data[at] == _LARGE_E)):
        whole = False
        at += _1
        if at < end and ((data[at] == _MINUS) | (data[at] == _PLUS)):
            at += _1
        first = at
        at = _digits(data, first, end)
        if at == first:
            return end + _1, False
    return at, whole


@compiled_inline
def _whole_number(data: Any, at: Any, end: Any) -> Any:
    negative = data[at] == _MINUS
    if negative:
        at += _1
    value = np.int64(0)
    while at < end:
        value = value * _TEN + np.int64(data[at] - _ZERO)
        at += _1
    return -value if negative else value


@compiled
def _column_of(data: Any, start: Any, end: Any, fields: Any, expected: Any) -> Any:
    """Return the column of a name, or -1. Start at the expected column, because most texts keep the field order."""
    columns = np.int64(len(fields.name_ends) - 1)
    for turn in range(columns):
        column = expected + turn
        if column >= columns:
            column -= columns
        first = np.uint64(fields.name_ends[column])
        if np.uint64(fields.name_ends[column + 1]) - first != end - start:
            continue
        same = True
        for index in range(end - start):
            if fields.names[first + index] != data[start + index]:
                same = False
                break
        if same:
            return column
    return np.int64(-1)


@compiled
def _folded_column_of(data: Any, start: Any, end: Any, fields: Any) -> Any:
    """Return the column of the name in upper case, or -1."""
    for column in range(np.int64(len(fields.name_ends) - 1)):
        first = np.uint64(fields.name_ends[column])
        if np.uint64(fields.name_ends[column + 1]) - first != end - start:
            continue
        same = True
        for index in range(end - start):
            byte = data[start + index]
            if (_A <= byte <= _Z and fields.names[first + index] != byte - _CASE) or (
                not _A <= byte <= _Z and fields.names[first + index] != byte
            ):
                same = False
                break
        if same:
            return np.int64(column)
    return np.int64(-1)


@compiled_inline
def _is_null(data: Any, at: Any, end: Any) -> Any:
    return (
        end - at >= _4
        and data[at] == _N
        and data[at + _1] == _U
        and data[at + _2] == _L
        and data[at + _3] == _L
    )


@compiled
def _end_of_truth(data: Any, at: Any, end: Any) -> Any:
    """Return the end of `true` or `false`, or `at` for anything else."""
    if end - at < _4 or data[at + _1] != (_R if data[at] == _T else _A):
        return at
    third, fourth = data[at + _2], data[at + _3]
    if data[at] == _T and third == _U and fourth == _E:
        return at + _4
    if data[at] == _F and third == _L and fourth == _S and end - at >= _5 and data[at + _4] == _E:
        return at + _5
    return at


@compiled
def _parse_object(data: Any, at: Any, end: Any, row: Any, fields: Any, columns: Any) -> Any:
    """Read one object into its row of the columns. Return True if it was plain."""
    at = _skip_blank(data, at, end)
    if at >= end or data[at] != _OPEN:
        return False
    at = _skip_blank(data, at + _1, end)
    if at < end and data[at] == _CLOSE:
        return _skip_blank(data, at + _1, end) == end
    seen = _0
    expected = np.int64(0)
    while True:
        if at >= end or data[at] != _QUOTE:
            return False
        start = at + _1
        at = _end_of_text(data, start, end)
        if at >= end:
            return False
        column = _column_of(data, start, at, fields, expected)
        if column < 0 and fields.folds:
            column = _folded_column_of(data, start, at, fields)
        kind = np.int64(-1)
        if column >= 0:
            kind = np.int64(fields.kinds[column])
            bit = _1 << np.uint64(column)
            if seen & bit:
                return False
            seen |= bit
            expected = column + 1
        at = _skip_blank(data, at + _1, end)
        if at >= end or data[at] != _COLON:
            return False
        at = _skip_blank(data, at + _1, end)
        if at >= end:
            return False
        first = data[at]
        if first == _QUOTE:
            start = at + _1
            at = _end_of_text(data, start, end)
            if at >= end or kind > TEXT:
                return False
            if kind == TEXT:
                columns.starts[column, row] = start
                columns.lengths[column, row] = at - start
                columns.valid[column, row] = 1
            at += _1
        elif first == _MINUS or _ZERO <= first <= _NINE:
            start = at
            at, whole = _end_of_number(data, start, end)
            if at > end:
                return False
            if kind == WHOLE:
                if not whole or at - start > _MOST_DIGITS:
                    return False
                number = _whole_number(data, start, at)
                if number < fields.limits[column, 0] or number > fields.limits[column, 1]:
                    return False
                columns.numbers[column, row] = number
                columns.valid[column, row] = 1
            elif kind == NUMBER:
                columns.starts[column, row] = start
                columns.lengths[column, row] = at - start
                columns.valid[column, row] = 1
            elif kind >= 0:
                return False
        elif first == _N:
            if not _is_null(data, at, end):
                return False
            at += _4
        else:
            start = at
            at = _end_of_truth(data, start, end)
            if at == start or (kind >= 0 and kind != TRUTH):
                return False
            if kind == TRUTH:
                columns.numbers[column, row] = first == _T
                columns.valid[column, row] = 1
        at = _skip_blank(data, at, end)
        if at >= end:
            return False
        if data[at] == _CLOSE:
            return _skip_blank(data, at + _1, end) == end
        if data[at] != _COMMA:
            return False
        at = _skip_blank(data, at + _1, end)


@compiled
def parse_objects(texts: Any, fields: Any, columns: Any, odd: Any) -> Any:
    """Read all texts into zeroed columns. Mark odd texts in `odd`, and return their count."""
    count = 0
    for row in range(len(texts.ends) - 1):
        if len(texts.nulls) and texts.nulls[row]:
            continue
        first = np.uint64(texts.ends[row])
        last = np.uint64(texts.ends[row + 1])
        if not _parse_object(texts.data, first, last, row, fields, columns):
            odd[row] = True
            count += 1
            for column in range(len(fields.kinds)):
                columns.valid[column, row] = 0
                columns.lengths[column, row] = 0
    return count


@compiled
def fill_texts(data: Any, starts: Any, lengths: Any, ends: Any, target: Any) -> Any:
    """Concatenate texts. `ends` has one more entry than there are rows."""
    at = _0
    ends[0] = 0
    for row in range(len(starts)):
        size = np.uint64(lengths[row])
        copy_bytes(target, at, data, np.uint64(starts[row]), size)
        at += size
        ends[row + 1] = at
    return at


@compiled
def fill_lines(texts: Any, target: Any) -> Any:
    """Write each text to a line of `target`. Return the number of bytes, or 0 if a text is not an object.

    Line breaks in a text become tabs, which are equally valid between tokens and equally invalid inside strings.
    """
    data = texts.data
    at = _0
    for row in range(len(texts.ends) - 1):
        if len(texts.nulls) and texts.nulls[row]:
            target[at] = _OPEN
            target[at + _1] = _CLOSE
            target[at + _2] = _NEWLINE
            at += _3
            continue
        first = np.uint64(texts.ends[row])
        last = np.uint64(texts.ends[row + 1])
        while first < last and _is_blank(data[first]):
            first += _1
        while first < last and _is_blank(data[last - _1]):
            last -= _1
        count = last - first
        if count < _2 or data[first] != _OPEN or data[last - _1] != _CLOSE:
            return _0
        for index in range(count):
            byte = data[first + index]
            target[at + index] = _TAB if (byte == _NEWLINE) | (byte == _RETURN) else byte
        at += count
        target[at] = _NEWLINE
        at += _1
    return at
