"""The loop that puts JSON texts on lines of their own, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.spark.kernels.compiling import compiled, compiled_inline

_TAB, _NEWLINE, _RETURN, _SPACE, _OPEN, _CLOSE = np.frombuffer(b"\t\n\r {}", np.uint8)
_0, _1, _2, _3 = map(np.uint64, range(4))


@compiled_inline
def _is_blank(byte: Any) -> Any:
    return (byte == _SPACE) | (byte == _TAB) | (byte == _NEWLINE) | (byte == _RETURN)


@compiled
def fill_lines(data: Any, ends: Any, nulls: Any, target: Any) -> Any:
    """Write the texts between `ends` to `target`, and give how many bytes they are; 0 if one is no object.

    Ends of lines in a text become tabs: as good between tokens, and as bad inside a string. `nulls` may be empty.
    """
    at = _0
    for row in range(len(ends) - 1):
        if len(nulls) and nulls[row]:
            target[at] = _OPEN
            target[at + _1] = _CLOSE
            target[at + _2] = _NEWLINE
            at += _3
            continue
        first = np.uint64(ends[row])
        last = np.uint64(ends[row + 1])
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
