"""For compatible files, the new file parses bytes of the old file's messages."""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ottla.registry.schemas import check, parse

SCALARS = (
    "int32", "int64", "uint32", "bool", "sint32", "sint64", "fixed32", "sfixed64", "float", "double", "string",
    "E", "N",
)  # fmt: skip


@st.composite
def files(draw: st.DrawFn) -> str:
    """Return a message M with up to six fields, some in a oneof, and the types of its fields."""
    members = draw(
        st.dictionaries(st.integers(1, 6), st.tuples(fields(), st.sampled_from("--op")), max_size=6)
    )
    if members and draw(st.booleans()):
        number = draw(st.sampled_from(sorted(members)))
        members[number] = (("required ", "int32"), "-")
    return text_of(members)


@st.composite
def fields(draw: st.DrawFn) -> tuple[str, str]:
    type_ = draw(st.sampled_from((*SCALARS, "map<string, int32>", "map<string, N>")))
    label = "" if type_.startswith("map") else draw(st.sampled_from(("optional ", "optional ", "repeated ")))
    return label, type_


def text_of(members: dict[int, tuple[tuple[str, str], str]]) -> str:
    plain, oneofs = [], {"o": [], "p": []}  # type: ignore[var-annotated]
    for number, ((label, type_), place) in members.items():
        if place == "-" or label != "optional ":
            plain.append(f"{label}{type_} f{number} = {number};")
        else:
            oneofs[place].append(f"{type_} f{number} = {number};")
    for name, inside in oneofs.items():
        if inside:
            plain.append(f"oneof {name} {{ {' '.join(inside)} }}")
    return (
        f'syntax = "proto2"; message M {{ {" ".join(plain)} }} enum E {{ A = 0; B = 1; }} '
        "message N { optional int32 x = 1; optional M m = 2; }"
    )


@st.composite
def pairs(draw: st.DrawFn) -> tuple[str, str]:
    members = draw(
        st.dictionaries(st.integers(1, 5), st.tuples(fields(), st.sampled_from("--op")), max_size=5)
    )
    new = {}
    for number, (kind, place) in members.items():
        match draw(st.integers(0, 9)):
            case 0:
                continue
            case 1:
                new[number] = (draw(fields()), place)
            case 2:
                new[number] = (kind, draw(st.sampled_from("-op")))
            case 3:
                new[number] = (
                    ("required ", kind[1]) if kind[0] == "optional " and place == "-" else kind,
                    place,
                )
            case _:
                new[number] = (kind, place)
    new |= draw(st.dictionaries(st.integers(6, 7), st.tuples(fields(), st.sampled_from("-op")), max_size=2))
    return text_of(members), text_of(new)


def class_of(file: FileDescriptorProto) -> Any:
    pool = descriptor_pool.DescriptorPool()
    file.name = file.name or "f.proto"
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("M"))


VALUES: dict[int, st.SearchStrategy[Any]] = {
    1: st.floats(allow_nan=False), 2: st.floats(width=32, allow_nan=False), 3: st.integers(-(2**63), 2**63 - 1),
    5: st.integers(-(2**31), 2**31 - 1), 7: st.integers(0, 2**32 - 1), 8: st.booleans(), 9: st.text(max_size=4),
    13: st.integers(0, 2**32 - 1), 14: st.sampled_from((0, 1)), 16: st.integers(-(2**63), 2**63 - 1),
    17: st.integers(-(2**31), 2**31 - 1), 18: st.integers(-(2**63), 2**63 - 1),
}  # fmt: skip


def fill(draw: st.DrawFn, message: Any, depth: int = 2) -> None:
    for field in message.DESCRIPTOR.fields:
        if not field.is_required and draw(st.integers(0, 3)) == 0:
            continue
        entry = field.message_type is not None and field.message_type.GetOptions().map_entry
        if entry:
            if field.message_type.fields_by_name["value"].message_type is None:
                getattr(message, field.name)[draw(st.text(max_size=2))] = draw(VALUES[5])
            else:
                getattr(message, field.name)[draw(st.text(max_size=2))].x = 1
        elif field.message_type is not None:
            if depth:
                held = getattr(message, field.name)
                inner = held.add() if field.is_repeated else held
                inner.SetInParent()
                fill(draw, inner, depth - 1)
        elif field.is_repeated:
            getattr(message, field.name).extend(draw(st.lists(VALUES[field.type], max_size=3)))
        else:
            setattr(message, field.name, draw(VALUES[field.type]))


@st.composite
def written(draw: st.DrawFn, kind: Any) -> Any:
    message = kind()
    fill(draw, message)
    return message


@settings(max_examples=50)
@given(data=st.data())
def test_bytes_of_the_old_message_are_read_with_the_new(data: st.DataObject) -> None:
    write_and_read(data)


@pytest.mark.slow
@pytest.mark.timeout(1200)
@settings(max_examples=3000)
@given(data=st.data())
def test_bytes_of_the_old_message_are_read_with_the_new_in_thousands_of_pairs(data: st.DataObject) -> None:
    write_and_read(data)


def write_and_read(data: st.DataObject) -> None:
    old_text, new_text = data.draw(pairs())
    old, new = parse("PROTOBUF", old_text, {}), parse("PROTOBUF", new_text, {})
    if check(new, old):
        assume(False)
    before = data.draw(written(class_of(old.raw)))

    after = class_of(new.raw).FromString(before.SerializePartialToString())

    # No required field is missing, and set values are kept if the field still exists.
    assert after.IsInitialized() or not before.IsInitialized()
    for field, value in before.ListFields():
        other = after.DESCRIPTOR.fields_by_number.get(field.number)
        if other is not None and other.type == field.type and other.is_repeated == field.is_repeated:
            held = getattr(after, other.name)
            if field.message_type is None:
                assert list(held) == list(value) if field.is_repeated else held == value


@settings(max_examples=50)
@given(files())
def test_every_file_reads_itself_and_its_printed_form(text: str) -> None:
    schema = parse("PROTOBUF", text, {})
    again = parse("PROTOBUF", schema.canonical, {})

    assert again.canonical == schema.canonical
    assert not check(again, schema)
    assert not check(schema, again)
