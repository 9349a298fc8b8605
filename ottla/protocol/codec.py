"""The notation for declaring messages, and the codec built from it.

A message is a class. Each attribute is declared once, with its wire type and versions:

    class FetchPartition(Struct):
        partition: int = int32()
        last_fetched_epoch: int = int32("12+", default=-1)

    class FetchRequest(Request, key=1, versions="4-18", flexible="12+"):
        cluster_id: str | None = string("12+", tag=0, nullable="12+", default=None)
        topics: list[FetchTopic] = array(FetchTopic)

`FetchRequest.decode(buffer, version)` and `message.encode(version)` run Python functions generated for exactly that
version on first use (see `codegen`). Every attribute has a default, so constructors name only the attributes they set.
A tagged struct absent on the wire is None.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from struct import error as StructError
from typing import Any, ClassVar, Self, TypeAlias, TypeVar

Buffer: TypeAlias = bytes | bytearray | memoryview
Parts: TypeAlias = list[Any]  # bytes, memoryviews and file regions, in wire order
Versions: TypeAlias = tuple[int, int]

T = TypeVar("T")

NO_VERSIONS: Versions = (0, -1)
NEWEST = 32767
ZERO_UUID = bytes(16)

_MISSING: Any = type("_Missing", (), {"__repr__": lambda _: "<default>"})()


class MalformedMessage(Exception):
    """Raised for bytes that are not a message of this type and version."""


# Exceptions that generated decoders raise for truncated bytes or invalid text.
_MALFORMED = (StructError, IndexError, UnicodeDecodeError, OverflowError)


def parse_versions(text: str) -> Versions:
    """Parse `"4-18"`, `"12+"`, `"3"` or `"none"` into an inclusive range."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return int(text[:-1]), NEWEST
    low, _, high = text.partition("-")
    return int(low), int(high or low)


class Field:
    """One declared attribute: its wire type, and the versions in which it is present, nullable or tagged."""

    __slots__ = ("default", "element", "kind", "nullable", "struct", "tag", "versions")

    def __init__(
        self,
        kind: str,
        versions: str,
        nullable: str,
        tag: int | None,
        default: Any,
        struct: type[Struct] | None = None,
        element: Field | None = None,
    ) -> None:
        self.kind = kind
        self.versions = parse_versions(versions)
        self.nullable = parse_versions(nullable)
        self.tag = tag
        self.default = default
        self.struct = struct
        self.element = element


def _numeric(kind: str, zero: Any) -> Callable[..., Any]:
    def declare(versions: str = "0+", *, default: Any = zero, tag: int | None = None) -> Any:
        return Field(kind, versions, "none", tag, default)

    declare.__name__ = kind
    return declare


int8 = _numeric("int8", 0)
int16 = _numeric("int16", 0)
uint16 = _numeric("uint16", 0)
int32 = _numeric("int32", 0)
int64 = _numeric("int64", 0)
float64 = _numeric("float64", 0.0)
boolean = _numeric("boolean", False)
uuid = _numeric("uuid", ZERO_UUID)


def string(
    versions: str = "0+", *, nullable: str = "none", default: str | None = "", tag: int | None = None
) -> Any:
    return Field("string", versions, nullable, tag, default)


def binary(
    versions: str = "0+", *, nullable: str = "none", default: bytes | None = b"", tag: int | None = None
) -> Any:
    return Field("binary", versions, nullable, tag, default)


def records(versions: str = "0+", *, nullable: str = "none", default: bytes | None = None) -> Any:
    """Declare record batches: decoded as a view of the request, encoded from anything with a length."""
    return Field("records", versions, nullable, None, default)


def array(
    of: type[Struct] | Callable[..., Any],
    versions: str = "0+",
    *,
    nullable: str = "none",
    default: None = _MISSING,
    tag: int | None = None,
) -> Any:
    if isinstance(of, type):
        return Field("array", versions, nullable, tag, default, struct=of)
    return Field("array", versions, nullable, tag, default, element=of())


def struct(of: type[Struct], versions: str = "0+", *, nullable: str = "none", tag: int | None = None) -> Any:
    return Field(
        "struct",
        versions,
        nullable,
        tag,
        None if tag is not None or nullable != "none" else _MISSING,
        struct=of,
    )


class _StructType(type):
    """Turns declared attributes into slots and stores the declarations in `fields`."""

    fields: dict[str, Field]

    def __new__(
        mcs, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _StructType:
        fields = {key: value for key, value in namespace.items() if isinstance(value, Field)}
        for key in fields:
            del namespace[key]
        namespace["__slots__"] = tuple(fields)
        cls = super().__new__(mcs, name, bases, namespace, **options)
        cls.fields = fields
        return cls


class Struct(metaclass=_StructType):
    """Part of a message: declared attributes without a version of its own."""

    def __init__(self, **values: Any) -> None:
        # Generates the real constructor on first use and replaces this method.
        from ottla.protocol.codegen import make_init

        cls = type(self)
        cls.__init__ = make_init(cls)  # type: ignore[method-assign]
        cls.__init__(self, **values)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and all(
            getattr(self, name) == getattr(other, name) for name in type(self).fields
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={getattr(self, name)!r}" for name in type(self).fields)
        return f"{type(self).__name__}({values})"


class Data(Struct):
    """A versioned message: the body of a request, a response or an internal record value."""

    versions: ClassVar[Versions]
    flexible: ClassVar[Versions]
    _decoders: ClassVar[dict[int, Callable[[Buffer, int], tuple[Any, int]]]]
    _encoders: ClassVar[dict[int, Callable[[Any, Callable[[Any], None]], None]]]
    _sliced_decoders: ClassVar[dict[int, Callable[..., Generator[None, None, tuple[Any, int]]]]]
    _sliced_encoders: ClassVar[dict[int, Callable[..., Generator[None, None, None]]]]

    def __init_subclass__(cls, *, versions: str = "none", flexible: str = "none", **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.versions = parse_versions(versions)
        cls.flexible = parse_versions(flexible)
        cls._decoders = {}
        cls._encoders = {}
        cls._sliced_decoders = {}
        cls._sliced_encoders = {}

    @classmethod
    def is_flexible(cls, version: int) -> bool:
        return cls.flexible[0] <= version <= cls.flexible[1]

    @classmethod
    def decode(cls, buffer: Buffer, version: int, position: int = 0) -> Self:
        """Decode one message; trailing bytes in `buffer` are ignored."""
        decoder = cls._decoders.get(version) or cls._make("_decoders", "make_decoder", version)
        try:
            message: Self = decoder(buffer, position)[0]
        except _MALFORMED as error:
            raise MalformedMessage(f"{cls.__name__} v{version}: {error}") from None
        return message

    @classmethod
    def decode_from(cls, buffer: Buffer, version: int, position: int = 0) -> tuple[Self, int]:
        """Like `decode`, and also return the end position."""
        decoder = cls._decoders.get(version) or cls._make("_decoders", "make_decoder", version)
        try:
            return decoder(buffer, position)
        except _MALFORMED as error:
            raise MalformedMessage(f"{cls.__name__} v{version}: {error}") from None

    @classmethod
    def decode_in_slices(
        cls, buffer: Buffer, version: int, position: int, started: list[Any]
    ) -> Generator[None, None, Self]:
        """Like `decode`, but yield every few hundred elements.

        The message is added to `started` first, so that a caller that stops early can dismantle it.
        """
        decoder = cls._sliced_decoders.get(version) or cls._make(
            "_sliced_decoders", "make_sliced_decoder", version
        )
        try:
            message, _ = yield from decoder(buffer, position, started)
        except _MALFORMED as error:
            raise MalformedMessage(f"{cls.__name__} v{version}: {error}") from None
        return message  # type: ignore[no-any-return]

    def encode(self, version: int) -> bytes:
        parts: Parts = []
        encoder = self._encoders.get(version) or self._make("_encoders", "make_encoder", version)
        encoder(self, parts.append)
        return b"".join(parts)

    def encode_parts(self, version: int, write: Callable[[Any], None]) -> None:
        """Write the encoded message piece by piece, passing records through without a copy."""
        encoder = self._encoders.get(version) or self._make("_encoders", "make_encoder", version)
        encoder(self, write)

    def encode_in_slices(self, version: int, write: Callable[[Any], None]) -> Generator[None, None, None]:
        """Like `encode_parts`, but yield every few hundred elements."""
        encoder = self._sliced_encoders.get(version) or self._make(
            "_sliced_encoders", "make_sliced_encoder", version
        )
        return encoder(self, write)

    @classmethod
    def _make(cls, cache: str, maker: str, version: int) -> Callable[..., Any]:
        from ottla.protocol import codegen, sliced_codegen

        if not cls.versions[0] <= version <= cls.versions[1]:
            raise ValueError(f"{cls.__name__} has no version {version}")
        made: Callable[..., Any] = getattr(sliced_codegen if "sliced" in maker else codegen, maker)(
            cls, version
        )
        getattr(cls, cache)[version] = made
        return made


class _Message(Data):
    api_key: ClassVar[int]

    def __init_subclass__(cls, *, key: int = -1, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.api_key = key


class Request(_Message):
    """A client's request; `key` identifies the API."""

    @classmethod
    def header_version(cls, version: int) -> int:
        return 2 if cls.is_flexible(version) else 1


class Response(_Message):
    """A broker's response to the request with the same key."""

    @classmethod
    def header_version(cls, version: int) -> int:
        # A client that sends ApiVersions does not know yet whether the broker writes flexible headers.
        return 1 if cls.is_flexible(version) and cls.api_key != 18 else 0
