"""Compilation of the kernels by numba, once per machine, with a cache on disk next to the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile the function at its first call, or load it from the cache of an earlier process in milliseconds.

    numba checks only the function's own module to see if its cache is stale, not the functions it calls. Touch the
    kernels after a change to `copy_bytes`.
    """
    return _compile(function, inline=False)


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile and inline a function that kernels call in their inner loops."""
    return _compile(function, inline=True)


def _compile(function: Callable[..., Any], inline: bool) -> Callable[..., Any]:
    try:
        return njit(function, cache=True, nogil=True, forceinline=inline)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package directory nor the user's cache is writable
        return njit(function, nogil=True, forceinline=inline)  # type: ignore[no-any-return]


def _copy_bytes(typing_context: Any, target: Any, to: Any, source: Any, start: Any, count: Any) -> Any:
    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, to, source, start, count = arguments
        target_array = context.make_array(signature.args[0])(context, builder, target)
        source_array = context.make_array(signature.args[2])(context, builder, source)
        cgutils.raw_memcpy(
            builder, builder.gep(target_array.data, [to]), builder.gep(source_array.data, [start]), count, 1
        )
        return context.get_dummy_value()

    return types.void(target, types.uint64, source, types.uint64, types.uint64), generate


#: copy_bytes(target, to, source, start, count) copies `count` bytes from one byte array to another, without checks.
#: For short strings, a loop over bytes or a slice assignment takes several times as long.
copy_bytes = intrinsic(_copy_bytes)
