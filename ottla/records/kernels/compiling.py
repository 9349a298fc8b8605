"""How the kernels are compiled: by numba, once per machine, and kept on disk beside the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic


def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compiled at its first call, or loaded from the cache of an earlier process in milliseconds.

    numba looks at the module of a function to see whether its cache is stale, and not at what it calls:
    after a change of `copy_bytes`, touch the kernels.
    """
    return _compile(function, inline=False)


def compiled_inline(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same, for what kernels call in their inner loops."""
    return _compile(function, inline=True)


def _compile(function: Callable[..., Any], inline: bool) -> Callable[..., Any]:
    try:
        return njit(function, cache=True, nogil=True, forceinline=inline)  # type: ignore[no-any-return]
    except RuntimeError:  # no directory can be written: neither the package's nor the user's
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


#: copy_bytes(target, to, source, start, count): `count` bytes of one array of bytes into another. Nothing is
#: checked. (A loop over bytes or a slice assignment takes several times as long for short strings.)
copy_bytes = intrinsic(_copy_bytes)
