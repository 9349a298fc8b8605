"""Generate Python functions that decode, encode and construct one message in one version.

The functions are straight-line code. Adjacent fixed-size fields share one `struct` call, nested structs are inlined,
and fields absent from a version cost nothing. Decoders check lengths against the buffer before allocating memory for
them.

`sliced_codegen` generates the same code for large messages, as generators.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from struct import Struct as Packer
from struct import pack, unpack_from
from typing import Any

from ottla.protocol.codec import _MISSING, Buffer, Data, Field, MalformedMessage, Struct

_FORMATS = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "boolean": "?",
    "uuid": "16s",
}
_SMALL = [bytes([n]) for n in range(128)]
# Number arrays up to this length use a `struct` compiled for their length.
_SHORT_ARRAY = 32

# Kafka's limits on incoming messages: the last one has always applied, the others since Kafka 4.4.
MAX_ELEMENTS = 1_000_000
MAX_TAGGED_FIELDS = 10_000
MAX_STRING_BYTES = 32_767


def unsigned_varint(value: int) -> bytes:
    if value < 128:
        return _SMALL[value]
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def rest_of_varint(buffer: Buffer, position: int, value: int) -> tuple[int, int]:
    """Continue decoding an unsigned varint. The high bit of its first byte, `value`, was set."""
    value &= 127
    for shift in (7, 14, 21, 28):
        byte = buffer[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise MalformedMessage("a length of more than 32 bits")


def _rest_of_count(buffer: Buffer, position: int, value: int) -> tuple[int, int]:
    value, position = rest_of_varint(buffer, position, value)
    if value > MAX_ELEMENTS + 1:
        raise MalformedMessage(f"an array of {value - 1} elements exceeds {MAX_ELEMENTS}")
    return value, position


def _rest_of_string_length(buffer: Buffer, position: int, value: int) -> tuple[int, int]:
    value, position = rest_of_varint(buffer, position, value)
    if value > MAX_STRING_BYTES + 1:
        raise MalformedMessage(f"a string of {value - 1} bytes exceeds {MAX_STRING_BYTES}")
    return value, position


@cache
def _methods_by_length(before: str, element: str, method: str) -> list[Callable[..., Any]]:
    return [getattr(Packer(f">{before}{length}{element}"), method) for length in range(_SHORT_ARRAY)]


def _short(name: str) -> None:
    raise MalformedMessage(f"{name}: its length does not fit the message")


def _too_many(count: int, kind: str, limit: int) -> None:
    raise MalformedMessage(f"{count} {kind} exceed {limit}")


class Writer:
    """Generated source lines with indentation, and the names they refer to."""

    def __init__(self, cls: type[Data], version: int) -> None:
        self.version = version
        self.flexible = cls.is_flexible(version)
        self.lines: list[str] = []
        self.names: dict[str, Any] = {"short": _short, "str": str, "bytes": bytes, "len": len}
        self.depth = 1
        self.counter = 0
        self.pending: list[tuple[str, str]] = []

    def line(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def unique(self, stem: str) -> str:
        self.counter += 1
        return f"{stem}{self.counter}"

    def bind(self, stem: str, value: Any) -> str:
        for name, bound in self.names.items():
            if bound is value:
                return name
        name = self.unique(stem)
        self.names[name] = value
        return name

    def packer(self, fmt: str, method: str) -> str:
        name = f"{method}_{fmt.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = getattr(Packer(">" + fmt), method)
        return name

    def packers(self, before: str, element: str, method: str) -> str:
        """Bind a table of `struct` methods, indexed by the length of a number array after fixed fields."""
        name = f"{method}_{before.replace('?', 'o')}_many_{element.replace('?', 'o')}"
        if name not in self.names:
            self.names[name] = _methods_by_length(before, element, method)
        return name

    def carried(self, cls: type[Struct]) -> tuple[list[tuple[str, Field]], list[tuple[str, Field]]]:
        there = [(n, f) for n, f in cls.fields.items() if f.versions[0] <= self.version <= f.versions[1]]
        plain = [(n, f) for n, f in there if f.tag is None]
        tagged = sorted(((n, f) for n, f in there if f.tag is not None), key=lambda item: item[1].tag or 0)
        return plain, tagged

    def is_nullable(self, field: Field) -> bool:
        return field.nullable[0] <= self.version <= field.nullable[1]

    def step(self) -> None:
        """Hook: an element follows."""

    def compile(self, signature: str, filename: str) -> Callable[..., Any]:
        source = f"def made({signature}):\n" + "\n".join(self.lines) + "\n"
        exec(compile(source, filename, "exec"), self.names)
        made: Callable[..., Any] = self.names["made"]
        return made


def _default(writer: Writer, field: Field) -> str:
    if field.default is not _MISSING:
        return repr(field.default)
    if field.kind == "array":
        return "[]"
    return writer.bind("C", field.struct) + "()"


# Decoding


class Decoder(Writer):
    def flush(self) -> None:
        if not self.pending:
            return
        fmt = "".join(f for f, _ in self.pending)
        targets = ", ".join(t for _, t in self.pending)
        unpack = self.packer(fmt, "unpack_from")
        self.line(f"{targets}{',' if len(self.pending) == 1 else ''} = {unpack}(buffer, pos)")
        self.line(f"pos += {Packer('>' + fmt).size}")
        self.pending.clear()

    def struct(self, cls: type[Struct], target: str, into: str | None = None) -> None:
        """Read the fields of `cls` into a new object bound to `target`; leaves nothing pending.

        With `into`, append the object to that list before reading its fields, so that a partly read message is
        connected.
        """
        self.flush()
        self.line(f"{target} = new({self.bind('C', cls)})")
        if into is not None:
            self.line(f"{into}.append({target})")
        plain, tagged = self.carried(cls)
        carried = {name for name, _ in plain}
        for name, field in cls.fields.items():
            if name not in carried:
                self.line(f"{target}.{name} = {_default(self, field)}")
        for name, field in plain:
            self.value(field, f"{target}.{name}", name)
        if self.flexible:
            self.tags(tagged, target)
        self.flush()

    def value(self, field: Field, target: str, label: str) -> None:
        nullable = self.is_nullable(field)
        if field.kind in _FORMATS:
            self.pending.append((_FORMATS[field.kind], target))
        elif field.kind == "struct":
            self.nested(field, target, nullable)
        elif field.kind == "array":
            self.array(field, target, label, nullable)
        else:
            self.sized(field.kind, target, label, nullable)

    def byte(self, target: str) -> None:
        """Read a byte together with the pending fixed fields."""
        if self.pending:
            self.pending.append(("B", target))
            self.flush()
        else:
            self.line(f"{target} = buffer[pos]")
            self.line("pos += 1")

    def length(self, fmt: str, rest: str = "rest_of_varint") -> str:
        """Read a length; both encodings use -1 for null."""
        count = self.unique("n")
        if self.flexible:
            self.byte(count)
            self.line(f"if {count} > 127: {count}, pos = {rest}(buffer, pos, {count})")
            self.line(f"{count} -= 1")
        else:
            self.pending.append((fmt, count))
            self.flush()
        return count

    def absent(self, target: str, label: str, nullable: bool) -> None:
        self.line(f"{target} = None" if nullable else f"short({label!r})")

    def sized(self, kind: str, target: str, label: str, nullable: bool) -> None:
        if kind == "string":
            count = self.length("h", "rest_of_string_length")
        else:
            count = self.length("i")
        # Kafka accepts a null record set even for fields declared non-nullable.
        nullable = nullable or kind == "records"
        self.line(f"if {count} < 0:")
        self.depth += 1
        self.absent(target, label, nullable)
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        self.line(f"stop = pos + {count}")
        self.line(f"if stop > end: short({label!r})")
        piece = "buffer[pos:stop]"
        self.line(
            f"{target} = "
            + {"string": f"str({piece}, 'utf-8')", "binary": f"bytes({piece})"}.get(kind, piece)
        )
        self.line("pos = stop")
        self.depth -= 1

    def nested(self, field: Field, target: str, nullable: bool) -> None:
        assert field.struct is not None
        inner = self.unique("o")
        if nullable:
            self.flush()
            present = self.unique("n")
            self.pending.append(("b", present))
            self.flush()
            # A null tagged struct is encoded as 0, any other null struct as -1.
            null = "< 1" if field.tag is not None else "< 0"
            self.line(f"if {present} {null}: {target} = None")
            self.line("else:")
            self.depth += 1
        self.struct(field.struct, inner)
        self.line(f"{target} = {inner}")
        if nullable:
            self.depth -= 1

    def array(self, field: Field, target: str, label: str, nullable: bool) -> None:
        count = self.length("i", "rest_of_count")
        self.line(f"if {count} < 0:")
        self.depth += 1
        self.absent(target, label, nullable)
        self.depth -= 1
        self.line("else:")
        self.depth += 1
        # Every element takes at least one byte, so a larger count must be false.
        self.line(f"if {count} > end - pos: short({label!r})")
        if not self.flexible:
            self.line(f"if {count} > {MAX_ELEMENTS}: too_many({count}, 'elements', {MAX_ELEMENTS})")
        element = field.element
        if element is not None and element.kind in _FORMATS and element.kind != "uuid":
            self.numbers(_FORMATS[element.kind], target, count)
        else:
            items, item = self.unique("a"), self.unique("o")
            self.line(f"{target} = {items} = []")
            self.line(f"while {count}:")  # most arrays are too short for a range to pay off
            self.depth += 1
            self.line(f"{count} -= 1")
            self.step()
            if field.struct is not None:
                self.element(field.struct, item, items)
            else:
                assert element is not None
                self.value(element, item, label)
                self.flush()
                self.line(f"{items}.append({item})")
            self.depth -= 1
        self.depth -= 1

    def element(self, cls: type[Struct], item: str, items: str) -> None:
        self.struct(cls, item)
        self.line(f"{items}.append({item})")

    def numbers(self, element: str, target: str, count: str) -> None:
        unpack, size = self.packers("", element, "unpack_from"), Packer(">" + element).size
        self.line(f"if {count} < {_SHORT_ARRAY}:")
        self.line(f"    {target} = list({unpack}[{count}](buffer, pos))")
        self.line(f"    pos += {count} * {size}")
        self.line("else:")
        self.depth += 1
        self.many_numbers(element, target, count)
        self.depth -= 1

    def many_numbers(self, element: str, target: str, count: str) -> None:
        self.line(f"{target} = list(unpack_from(f'>{{{count}}}{element}', buffer, pos))")
        self.line(f"pos += {count} * {Packer('>' + element).size}")

    def tags(self, tagged: list[tuple[str, Field]], target: str) -> None:
        """Read known tagged fields and skip the others."""
        number, tag, size, stop = (self.unique(s) for s in ("n", "tag", "n", "stop"))
        self.byte(number)
        self.line(f"if {number}:")
        self.depth += 1
        self.line(f"if {number} > 127: {number}, pos = rest_of_varint(buffer, pos, {number})")
        limit = MAX_TAGGED_FIELDS
        self.line(f"if {number} > {limit}: too_many({number}, 'tagged fields', {limit})")
        self.line(f"for _ in range({number}):")
        self.depth += 1
        self.step()
        for name in (tag, size):
            self.byte(name)
            self.line(f"if {name} > 127: {name}, pos = rest_of_varint(buffer, pos, {name})")
        self.line(f"{stop} = pos + {size}")
        self.line(f"if {stop} > end: short('tagged field')")
        for name, field in tagged:
            self.line(f"if {tag} == {field.tag}:")
            self.depth += 1
            self.value(field, f"{target}.{name}", name)
            self.flush()
            # Otherwise many small fields could each make the decoder read all remaining bytes.
            self.line(f"if pos != {stop}: short({name!r})")
            self.depth -= 1
        self.line(f"pos = {stop}")
        self.depth -= 2

    def message(self, cls: type[Data], into: str | None = None) -> None:
        self.names |= {
            "new": object.__new__,
            "rest_of_count": _rest_of_count,
            "rest_of_string_length": _rest_of_string_length,
            "rest_of_varint": rest_of_varint,
            "too_many": _too_many,
            "unpack_from": unpack_from,
        }
        self.line("end = len(buffer)")
        self.struct(cls, "message", into)
        self.line("if pos > end: short('message')")
        self.line("return message, pos")


def make_decoder(cls: type[Data], version: int) -> Callable[[Buffer, int], tuple[Any, int]]:
    decoder = Decoder(cls, version)
    decoder.message(cls)
    return decoder.compile("buffer, pos", f"<{cls.__name__}.decode v{version}>")


# Encoding


class Encoder(Writer):
    def take(self) -> tuple[str, str]:
        """Return and clear the format and the values of the pending fixed fields."""
        fmt = "".join(f for f, _ in self.pending)
        values = ", ".join(e for _, e in self.pending if e)
        self.pending.clear()
        return fmt, values

    def flush(self) -> None:
        if not self.pending:
            return
        fmt, values = self.take()
        if values:
            self.line(f"write({self.packer(fmt, 'pack')}({values}))")
        else:
            self.line(f"write({bytes(len(fmt))!r})")

    def varint(self, expression: str) -> None:
        """Write an unsigned varint together with the pending fixed fields; `expression` is a local name."""
        fmt, values = self.take()
        if not fmt:
            self.line(f"write(small[{expression}] if {expression} < 128 else unsigned_varint({expression}))")
            return
        before = f"{values}, " if values else ""
        self.line(f"if {expression} < 128: write({self.packer(fmt + 'B', 'pack')}({before}{expression}))")
        self.line(f"else: write({self.packer(fmt, 'pack')}({values})); write(unsigned_varint({expression}))")

    def struct(self, cls: type[Struct], source: str) -> None:
        plain, tagged = self.carried(cls)
        for name, field in plain:
            self.value(field, f"{source}.{name}")
        if self.flexible:
            self.tags(tagged, source)

    def value(self, field: Field, source: str) -> None:
        nullable = self.is_nullable(field)
        if field.kind in _FORMATS:
            self.pending.append((_FORMATS[field.kind], source))
        elif field.kind == "struct":
            self.nested(field, source, nullable)
        elif field.kind == "array":
            self.array(field, source, nullable)
        else:
            self.sized(field.kind, source, nullable)

    def sized(self, kind: str, source: str, nullable: bool) -> None:
        data, count = self.unique("d"), self.unique("n")
        one = int(self.flexible)
        self.line(f"{data} = {source}")
        # Null in a version without null is written as empty, as in Kafka's old versions.
        self.line(f"if {data} is None:")
        self.line(f"    {data} = b''; {count} = {(-1 if nullable else 0) + one}")
        self.line("else:")
        if kind == "string":
            self.line(f"    {data} = {data}.encode()")
        self.line(f"    {count} = len({data})" + (" + 1" if one else ""))
        if self.flexible:
            self.varint(count)
        else:
            self.pending.append(("h" if kind == "string" else "i", count))
            self.flush()
        self.line(f"if {data}: write({data})")

    def nested(self, field: Field, source: str, nullable: bool) -> None:
        assert field.struct is not None
        inner = self.unique("o")
        self.line(f"{inner} = {source}")
        if not nullable:
            self.struct(field.struct, inner)
            return
        self.flush()
        self.line(f"if {inner} is None: write(b'\\xff')")
        self.line("else:")
        self.depth += 1
        self.line("write(b'\\x01')")
        self.struct(field.struct, inner)
        self.flush()
        self.depth -= 1

    def array(self, field: Field, source: str, nullable: bool) -> None:
        items, count = self.unique("a"), self.unique("n")
        one = int(self.flexible)
        self.line(f"{items} = {source}")
        self.line(f"if {items} is None: {items} = (); {count} = {(-1 if nullable else 0) + one}")
        self.line(f"else: {count} = len({items})" + (" + 1" if one else ""))
        element = field.element
        if element is not None and element.kind in _FORMATS and element.kind != "uuid":
            self.numbers(_FORMATS[element.kind], items, count)
            return
        if self.flexible:
            self.varint(count)
        else:
            self.pending.append(("i", count))
            self.flush()
        item = self.unique("o")
        self.line(f"for {item} in {items}:")
        self.depth += 1
        self.step()
        before = len(self.lines)
        if field.struct is not None:
            self.struct(field.struct, item)
        else:
            assert element is not None
            self.value(element, item)
        self.flush()
        if len(self.lines) == before:
            self.line("pass")
        self.depth -= 1

    def numbers(self, element: str, items: str, count: str) -> None:
        """Write a number array. A short array is packed with its length and the pending fixed fields."""
        fmt, values = self.take()
        before = f"{values}, " if values else ""
        pack = self.packers(fmt + ("B" if self.flexible else "i"), element, "pack")
        self.line(f"if {count} < {_SHORT_ARRAY}: write({pack}[len({items})]({before}{count}, *{items}))")
        self.line("else:")
        self.depth += 1
        if fmt:
            self.line(f"write({self.packer(fmt, 'pack')}({values}))")
        length = f"unsigned_varint({count})" if self.flexible else f"{self.packer('i', 'pack')}({count})"
        self.line(f"write({length})")
        self.many_numbers(element, items)
        self.depth -= 1

    def many_numbers(self, element: str, items: str) -> None:
        self.line(f"write(pack(f'>{{len({items})}}{element}', *{items}))")

    def tags(self, tagged: list[tuple[str, Field]], source: str) -> None:
        """Write tagged fields that differ from their default. Each is encoded separately to determine its size."""
        if not tagged:
            self.pending.append(("x", ""))  # a zero byte without a value
            return
        self.flush()
        conditions = []
        for name, field in tagged:
            value, default = f"{source}.{name}", field.default
            if default is _MISSING:
                conditions.append(f"bool({value})")
            elif default is None:
                conditions.append(f"{value} is not None")
            else:
                conditions.append(f"{value} != {default!r}")
        count = self.unique("n")
        self.line(f"{count} = " + " + ".join(f"({condition})" for condition in conditions))
        self.line(f"write(small[{count}])")
        self.line(f"if {count}:")
        self.depth += 1
        for (name, field), condition in zip(tagged, conditions, strict=True):
            self.line(f"if {condition}:")
            self.depth += 1
            outer, body, size = self.unique("w"), self.unique("b"), self.unique("n")
            self.line(f"{outer} = write; {body} = []; write = {body}.append")
            self.value(field, f"{source}.{name}")
            self.flush()
            self.line(f"write = {outer}; {body} = b''.join({body}); {size} = len({body})")
            self.line(f"write(small[{field.tag}])")
            self.varint(size)
            self.line(f"write({body})")
            self.depth -= 1
        self.depth -= 1

    def message(self, cls: type[Data]) -> None:
        self.names |= {"small": _SMALL, "unsigned_varint": unsigned_varint, "pack": pack}
        self.struct(cls, "message")
        self.flush()
        self.line("return")


def make_encoder(cls: type[Data], version: int) -> Callable[[Any, Callable[[Any], None]], None]:
    encoder = Encoder(cls, version)
    encoder.message(cls)
    return encoder.compile("message, write", f"<{cls.__name__}.encode v{version}>")


# Construction


def make_init(cls: type[Struct]) -> Callable[..., None]:
    names: dict[str, Any] = {"missing": _MISSING}
    parameters, lines = [], []
    for name, field in cls.fields.items():
        if field.default is not _MISSING:
            parameters.append(f"{name}={field.default!r}")
            lines.append(f"    self.{name} = {name}")
            continue
        fresh = "[]"
        if field.kind == "struct":
            names[f"C_{name}"] = field.struct
            fresh = f"C_{name}()"
        parameters.append(f"{name}=missing")
        lines.append(f"    self.{name} = {fresh} if {name} is missing else {name}")
    star = "*, " if parameters else ""
    source = f"def made(self, {star}{', '.join(parameters)}):\n" + ("\n".join(lines) or "    pass") + "\n"
    exec(compile(source, f"<{cls.__name__}.__init__>", "exec"), names)
    made: Callable[..., None] = names["made"]
    return made
