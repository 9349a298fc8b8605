"""Decoders and encoders of large messages: the code of `codegen` as generators.

They yield after every `SLICE` elements, so that the caller can serve other requests in between.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import Struct as Packer
from typing import Any

from ottla.protocol.codec import Buffer, Data, Struct
from ottla.protocol.codegen import Decoder, Encoder, Writer

# Elements between two yields. Numbers cost far less than any other element.
SLICE = 256
_NUMBERS_PER_SLICE = 8192


class _SlicedWriter(Writer):
    def step(self) -> None:
        self.line("steps -= 1")
        self.line(f"if not steps: steps = {SLICE}; yield")

    def compile(self, signature: str, filename: str) -> Callable[..., Any]:
        # The second line turns messages without arrays into generators too.
        self.lines[:0] = [f"    steps = {SLICE}", "    if not steps: yield"]
        return super().compile(signature, filename)


class _SlicedDecoder(_SlicedWriter, Decoder):
    def element(self, cls: type[Struct], item: str, items: str) -> None:
        self.struct(cls, item, items)  # a partly read message is connected

    def many_numbers(self, element: str, target: str, count: str) -> None:
        items, some = self.unique("a"), self.unique("n")
        self.line(f"{target} = {items} = []")
        self.line(f"while {count}:")
        self.depth += 1
        self.line(f"{some} = {count} if {count} < {_NUMBERS_PER_SLICE} else {_NUMBERS_PER_SLICE}")
        self.line(f"{items} += unpack_from(f'>{{{some}}}{element}', buffer, pos)")
        self.line(f"{count} -= {some}")
        self.line(f"pos += {some} * {Packer('>' + element).size}")
        self.line("yield")
        self.depth -= 1


class _SlicedEncoder(_SlicedWriter, Encoder):
    def many_numbers(self, element: str, items: str) -> None:
        at, some = self.unique("n"), self.unique("a")
        self.line(f"for {at} in range(0, len({items}), {_NUMBERS_PER_SLICE}):")
        self.depth += 1
        self.line(f"{some} = {items}[{at}:{at} + {_NUMBERS_PER_SLICE}]")
        self.line(f"write(pack(f'>{{len({some})}}{element}', *{some}))")
        self.line("yield")
        self.depth -= 1


def make_sliced_decoder(
    cls: type[Data], version: int
) -> Callable[[Buffer, int, list[Any]], Generator[None, None, tuple[Any, int]]]:
    """Build a decoder that adds the message to the list `started` before reading its fields."""
    decoder = _SlicedDecoder(cls, version)
    decoder.message(cls, "started")
    return decoder.compile("buffer, pos, started", f"<{cls.__name__}.decode_in_slices v{version}>")


def make_sliced_encoder(
    cls: type[Data], version: int
) -> Callable[[Any, Callable[[Any], None]], Generator[None, None, None]]:
    encoder = _SlicedEncoder(cls, version)
    encoder.message(cls)
    return encoder.compile("message, write", f"<{cls.__name__}.encode_in_slices v{version}>")
