"""Every API in every version, against kio, which is generated from Kafka's own definitions.

Each random message is built twice, with our classes and with kio's. Both must encode to the same bytes, and each must
decode to the original.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import random
import types
import typing
import uuid
from typing import Any

import pytest
from kio.index import load_entity_schema, load_request_schema, load_response_schema
from kio.schema.errors import ErrorCode as KioErrorCode
from kio.schema.index import api_key_map, schema_name_map
from kio.schema.request_header.v1.header import RequestHeader as KioRequestHeaderV1
from kio.schema.request_header.v2.header import RequestHeader as KioRequestHeaderV2
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

from ottla.protocol.codec import _MISSING, Data, Field, Request, Struct
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages import API_NAMES, request_type, response_type
from ottla.protocol.messages.consumer_groups import ConsumerProtocolAssignment, ConsumerProtocolSubscription

MESSAGES_PER_VERSION = 12
RANGES = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "uint16": (0, 2**16 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
}
TEXTS = ["", "a", "topic", "größe", "日本語", "🙂", "x" * 126, "x" * 127, "y" * 128, "z" * 300]
MILLISECOND = datetime.timedelta(milliseconds=1)
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)

NEWEST_IN_KIO = {18: 4, 28: 5, 42: 2, 88: 0, 89: 0}
UNKNOWN_TO_KIO = (93,)
# Keys from 10,000 on are Ottla's own.
KAFKAS = [key for key in API_NAMES if key < 10_000 and key not in UNKNOWN_TO_KIO]
MESSAGES = [
    *((request_type(key), EntityType.request) for key in KAFKAS),
    *((response_type(key), EntityType.response) for key in KAFKAS),
]
IDS = [message.__name__ for message, _ in MESSAGES]


def kio_type(message: type[Any], kind: EntityType, version: int) -> type[Any]:
    load = load_request_schema if kind == EntityType.request else load_response_schema
    return load(message.api_key, version)


def versions_of(message: type[Data]) -> range:
    """Return the versions that both sides know. kio is generated from Kafka 4.3 and lacks some of 4.4's."""
    newest = NEWEST_IN_KIO.get(getattr(message, "api_key", -1), message.versions[1])
    return range(message.versions[0], newest + 1)


def carried(message: type[Struct], version: int) -> list[tuple[str, Field]]:
    return [(n, f) for n, f in message.fields.items() if f.versions[0] <= version <= f.versions[1]]


def without_none(annotation: Any) -> Any:
    if isinstance(annotation, types.UnionType):
        return next(part for part in typing.get_args(annotation) if part is not types.NoneType)
    return annotation


class Twins:
    """Builds one random message with both our classes and kio's."""

    def __init__(self, version: int, seed: str) -> None:
        self.version = version
        self.random = random.Random(seed)
        self.depth = 0

    def message(self, ours: type[Struct], theirs: type[Any]) -> tuple[Any, Any]:
        mine, other = {}, {}
        for (name, field), their_field in zip(
            carried(ours, self.version), dataclasses.fields(theirs), strict=True
        ):
            mine[name], other[their_field.name] = self.field(field, their_field)
        return ours(**mine), theirs(**other)

    def field(self, field: Field, theirs: dataclasses.Field[Any]) -> tuple[Any, Any]:
        nullable = field.nullable[0] <= self.version <= field.nullable[1]
        annotation = without_none(theirs.type)
        if field.tag is not None and self.random.random() < 0.4:
            return self.absent(field, theirs, annotation)
        if nullable and self.random.random() < 0.25:
            return None, None
        if field.kind == "array":
            return self.array(field, theirs, annotation)
        if field.kind == "struct":
            assert field.struct is not None
            mine, other = self.message(field.struct, annotation)
            if field.tag is not None and other == default_of(theirs, annotation):
                mine = None  # kio omits a tagged struct with default values
            return mine, other
        return self.primitive(field.kind, theirs.metadata["kafka_type"])

    def absent(self, field: Field, theirs: dataclasses.Field[Any], annotation: Any) -> tuple[Any, Any]:
        mine = [] if field.default is _MISSING else field.default
        return mine, default_of(theirs, annotation)

    def array(self, field: Field, theirs: dataclasses.Field[Any], annotation: Any) -> tuple[Any, Any]:
        element = typing.get_args(annotation)[0]
        self.depth += 1
        most = (4, 3, 2, 1)[min(self.depth - 1, 3)]
        if field.struct is not None:
            pairs = [self.message(field.struct, element) for _ in range(self.random.randint(0, most))]
        else:
            assert field.element is not None
            count = self.random.choice([0, 1, 3, 3, 130]) if self.depth == 1 else self.random.randint(0, 3)
            kind = theirs.metadata["kafka_type"]
            pairs = [self.primitive(field.element.kind, kind) for _ in range(count)]
        self.depth -= 1
        return [mine for mine, _ in pairs], tuple(other for _, other in pairs)

    def primitive(self, kind: str, kafka_type: str) -> tuple[Any, Any]:
        choose = self.random
        if kafka_type == "error_code":
            code = choose.choice(list(KioErrorCode))
            return code.value, code
        if kafka_type in ("timedelta_i32", "timedelta_i64"):
            largest = 2**31 - 1 if kafka_type == "timedelta_i32" else 2**40
            number = choose.choice([0, 1, -1, largest, choose.randint(-largest, largest)])
            return number, number * MILLISECOND
        if kafka_type == "datetime_i64":
            number = 1000 * choose.choice([0, 1, choose.randint(0, 2**32)])
            return number, EPOCH + number * MILLISECOND
        if kafka_type == "uuid":
            raw = choose.choice([bytes(16), choose.randbytes(16)])
            # kio treats the zero UUID as null.
            return raw, uuid.UUID(bytes=raw) if any(raw) else None
        if kafka_type in ("bytes", "records"):
            raw = choose.choice([b"", b"\0", choose.randbytes(choose.choice([1, 50, 127, 128, 20_000]))])
            return raw, raw
        if kafka_type == "string":
            text = choose.choice(TEXTS)
            return text, text
        if kafka_type == "bool":
            flag = choose.random() < 0.5
            return flag, flag
        if kafka_type == "float64":
            number = choose.choice([0.0, -1.5, 1e300, choose.random()])
            return number, number
        low, high = RANGES[kafka_type]
        assert kind == kafka_type
        number = choose.choice([0, 1, -1 if low else 1, low, high, choose.randint(low, high)])
        return number, number


def default_of(theirs: dataclasses.Field[Any], annotation: Any) -> Any:
    if theirs.default is not dataclasses.MISSING:
        return theirs.default
    if dataclasses.is_dataclass(annotation):
        return annotation(
            **{
                field.name: default_of(field, without_none(field.type))
                for field in dataclasses.fields(annotation)
            }
        )
    if theirs.metadata.get("kafka_type") == "uuid":
        return None
    return annotation(0)


def kio_encode(theirs: Any) -> bytes:
    written = io.BytesIO()
    entity_writer(type(theirs))(written, theirs)
    return written.getvalue()


def assert_twins_agree(ours: Data, theirs: Any, version: int) -> None:
    wire = kio_encode(theirs)
    assert ours.encode(version) == wire
    decoded, size = entity_reader(type(theirs))(wire, 0)
    assert size == len(wire)
    assert decoded == theirs
    for buffer in (wire, memoryview(b"head" + wire + b"tail")):
        position = 0 if buffer is wire else 4
        again, end = type(ours).decode_from(buffer, version, position)
        assert end == position + len(wire)
        assert again == ours
        assert again.encode(version) == wire


@pytest.mark.parametrize(("message", "kind"), MESSAGES, ids=IDS)
def test_random_messages_have_the_same_bytes_in_every_version(message: type[Data], kind: EntityType) -> None:
    for version in versions_of(message):
        theirs = kio_type(message, kind, version)
        for number in range(MESSAGES_PER_VERSION):
            twins = Twins(version, f"{message.__name__} {version} {number}").message(message, theirs)
            assert_twins_agree(*twins, version)


@pytest.mark.parametrize("message", [ConsumerProtocolSubscription, ConsumerProtocolAssignment])
def test_what_group_members_say_to_each_other_has_the_same_bytes(message: type[Data]) -> None:
    name = "".join(f"_{c.lower()}" if c.isupper() else c for c in message.__name__).lstrip("_")
    for version in versions_of(message):
        theirs = load_entity_schema(name, version, EntityType.data)
        for number in range(MESSAGES_PER_VERSION):
            assert_twins_agree(
                *Twins(version, f"{name} {version} {number}").message(message, theirs), version
            )


@pytest.mark.parametrize(("message", "kind"), MESSAGES, ids=IDS)
def test_versions_are_those_that_kio_knows(message: type[Any], kind: EntityType) -> None:
    known = {v for v, kinds in schema_name_map[api_key_map[message.api_key]].items() if kind in kinds}
    assert known == set(versions_of(message))


@pytest.mark.parametrize(("message", "kind"), MESSAGES, ids=IDS)
def test_names_nullability_and_defaults_are_kios(message: type[Any], kind: EntityType) -> None:
    def compare(ours: type[Struct], theirs: type[Any], version: int) -> None:
        for (name, field), their_field in zip(
            carried(ours, version), dataclasses.fields(theirs), strict=True
        ):
            where = f"{ours.__name__}.{name} v{version}"
            assert name.removesuffix("_legacy") in (their_field.name, their_field.name + "_ms"), where
            assert field.tag == their_field.metadata.get("tag"), where
            annotation = without_none(their_field.type)
            kafka_type = their_field.metadata.get("kafka_type")
            if kafka_type not in ("uuid", "datetime_i64"):
                nullable = field.nullable[0] <= version <= field.nullable[1]
                assert nullable == (annotation is not their_field.type), where
            compare_default(field, their_field.default, kafka_type, where)
            if field.struct is not None:
                inner = typing.get_args(annotation)[0] if field.kind == "array" else annotation
                compare(field.struct, inner, version)

    for version in versions_of(message):
        compare(message, kio_type(message, kind, version), version)


def compare_default(field: Field, theirs: Any, kafka_type: str | None, where: str) -> None:
    if theirs is dataclasses.MISSING:
        return
    if theirs == () and field.default is _MISSING:
        return
    if field.kind == "struct" and field.tag is not None:
        theirs = None  # ours marks it as absent
    if isinstance(theirs, datetime.timedelta):
        theirs //= MILLISECOND
    if kafka_type == "uuid" and theirs is None:
        theirs = bytes(16)
    if kafka_type == "datetime_i64" and theirs is None:
        theirs = -1
    assert field.default == theirs, where


@pytest.mark.parametrize(("message", "kind"), MESSAGES, ids=IDS)
def test_headers_are_of_the_same_version(message: type[Any], kind: EntityType) -> None:
    for version in versions_of(message):
        assert (
            message.header_version(version) == kio_type(message, kind, version).__header_schema__.__version__
        )


@pytest.mark.parametrize("client_id", [None, "", "größe"])
def test_the_client_id_of_a_request_header_is_never_compact(client_id: str | None) -> None:
    # This lets the broker read key, version, correlation id and the client id's length at once.
    for header, tags in ((KioRequestHeaderV1, b""), (KioRequestHeaderV2, b"\0")):
        wire = kio_encode(
            header(request_api_key=1, request_api_version=2, correlation_id=3, client_id=client_id)
        )
        encoded = b"" if client_id is None else client_id.encode()
        length = (-1 if client_id is None else len(encoded)).to_bytes(2, "big", signed=True)
        assert wire == b"\0\x01\0\x02\0\0\0\x03" + length + encoded + tags


def test_error_codes_are_kios_retriable_or_not() -> None:
    ours = {code.value: (code.name.lower(), code.retriable) for code in ErrorCode if code < 134}  # 4.4's
    assert ours == {code.value: (code.name, code.retriable) for code in KioErrorCode}


def test_every_api_has_a_request_and_a_response_of_the_same_versions() -> None:
    for key in API_NAMES:
        request, response = request_type(key), response_type(key)
        assert issubclass(request, Request)
        assert request.api_key == response.api_key == key
        assert request.flexible == response.flexible
        if key != 22:  # InitProducerId: the response has a version that the released request lacks
            assert request.versions == response.versions
