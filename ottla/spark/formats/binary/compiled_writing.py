"""Shared parts of the compiled encoding loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from ottla.records.kernels.compiling import compiled_inline

_7, _127, _128 = map(np.uint64, (7, 127, 128))


@compiled_inline
def write_varint(out: Any, at: Any, raw: Any) -> Any:
    """Write seven bits per byte, lowest first. Return the position after them. The caller ensures room for ten."""
    while raw > _127:
        out[at] = np.uint8((raw & _127) | _128)
        at += 1
        raw >>= _7
    out[at] = np.uint8(raw)
    return at + 1


@compiled_inline
def is_same(one: Any, start: Any, other: Any, begin: Any, size: Any) -> Any:
    for index in range(size):  # noqa: SIM110 (it is compiled)
        if one[start + index] != other[begin + index]:
            return False
    return True
