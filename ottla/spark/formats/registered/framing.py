"""Schema of each record: an id in its prefix, or a GUID in the prefix or in a header."""

from __future__ import annotations

import uuid
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ottla.records.kernels import input_columns

#: Header names for keys and values.
HEADERS = {"key": "__key_schema_id", "value": "__value_schema_id"}

_ID, _GUID = 0, 1
_ID_BYTES, _GUID_BYTES = 5, 17


class SchemaName(NamedTuple):
    """Schema id or GUID of a record; `rest` holds the remaining bytes of a header."""

    id: int = -1
    guid: str = ""
    rest: bytes = b""

    def __str__(self) -> str:
        return self.guid or str(self.id)


class Framed(NamedTuple):
    """By row: index in `names` (-1 for none, such as null), and the length of the prefix."""

    which: Any
    skipped: Any
    names: list[SchemaName]
    reasons: dict[int, str]


def unframe(values: pa.BinaryArray, headers: pa.ListArray | None, part: str) -> Framed:
    """Find the schemas of the records. `part` is key or value."""
    rows = len(values)
    texts = input_columns.strings(values)
    starts = texts.ends[:-1].astype(np.int64)
    sizes = texts.ends[1:].astype(np.int64) - starts
    which = np.full(rows, -1, np.int64)
    skipped = np.zeros(rows, np.int64)
    names: list[SchemaName] = []
    reasons: dict[int, str] = {}
    open_rows = np.ones(rows, np.bool_)
    if len(texts.nulls):
        open_rows &= ~texts.nulls
    if headers is not None and len(headers.flatten()):
        _from_headers(headers, HEADERS[part], which, names, reasons, open_rows)
    data = texts.data
    magic = np.full(rows, -1, np.int64)
    some = open_rows & (sizes > 0)
    magic[some] = data[starts[some]]

    with_id = open_rows & (magic == _ID) & (sizes >= _ID_BYTES)
    [places] = np.nonzero(with_id)
    if len(places):
        ids = np.zeros(len(places), np.int64)
        for byte in range(1, _ID_BYTES):
            ids = ids << 8 | data[starts[places] + byte]
        distinct, codes = np.unique(ids, return_inverse=True)
        which[places] = codes + len(names)
        names += [SchemaName(int(each)) for each in distinct]
        skipped[places] = _ID_BYTES

    with_guid = open_rows & (magic == _GUID) & (sizes >= _GUID_BYTES)
    found: dict[str, int] = {}
    for row in np.nonzero(with_guid)[0]:
        start = int(starts[row])
        guid = str(uuid.UUID(bytes=data[start + 1 : start + _GUID_BYTES].tobytes()))
        if guid not in found:
            found[guid] = len(names)
            names.append(SchemaName(guid=guid))
        which[row] = found[guid]
        skipped[row] = _GUID_BYTES

    for row in np.nonzero(open_rows & ~with_id & ~with_guid)[0]:
        reasons[int(row)] = (
            "it does not begin with the id of a schema"
            if sizes[row]
            else "it is empty, and has no id of a schema"
        )
    return Framed(which, skipped, names, reasons)


def _from_headers(
    headers: pa.ListArray,
    header: str,
    which: Any,
    names: list[SchemaName],
    reasons: dict[int, str],
    open_rows: Any,
) -> None:
    pairs = headers.flatten()
    with_header = pc.indices_nonzero(pc.equal(pairs.field(0), header))
    if not len(with_header):
        return
    rows = pc.list_parent_indices(headers).take(with_header).to_pylist()
    # Nearly all rows share the same header value.
    values = pairs.field(1).take(with_header).dictionary_encode()
    known: list[int] = []
    for value in values.dictionary.to_pylist():
        name = _name(value)
        known.append(-1 if name is None else len(names))
        if name is not None:
            names.append(name)
    for row, code in zip(rows, values.indices.to_pylist(), strict=True):
        if not open_rows[row] and which[row] < 0:
            continue  # null
        open_rows[row] = False
        which[row] = -1 if code is None else known[code]
        if which[row] < 0:
            reasons[row] = f"its header {header} has no id of a schema"
        else:
            reasons.pop(row, None)


def _name(header: bytes) -> SchemaName | None:
    if header[:1] == bytes([_GUID]) and len(header) >= _GUID_BYTES:
        guid = str(uuid.UUID(bytes=header[1:_GUID_BYTES]))
        return SchemaName(guid=guid, rest=header[_GUID_BYTES:])
    if header[:1] == bytes([_ID]) and len(header) >= _ID_BYTES:
        return SchemaName(int.from_bytes(header[1:_ID_BYTES], "big"), rest=header[_ID_BYTES:])
    return None


#: Type of the sink's headers.
_PAIRS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)


def guid_header(guid: str, rest: bytes = b"") -> bytes:
    """Return the header with the schema's GUID and, for Protobuf, the message indexes."""
    return bytes([_GUID]) + uuid.UUID(guid).bytes + rest


def with_header(headers: pa.Array | None, part: str, data: bytes, records: pa.Array) -> pa.Array:
    name = HEADERS[part]
    if headers is not None:
        rows = [
            [*(pairs or []), *([{"key": name, "value": data}] if there else [])]
            for pairs, there in zip(headers.to_pylist(), records.is_valid().to_pylist(), strict=True)
        ]
        return pa.array(rows, _PAIRS)
    there = records.is_valid().to_numpy(zero_copy_only=False)
    ends = np.zeros(len(records) + 1, np.int32)
    np.cumsum(there, out=ends[1:])
    count = int(ends[-1])
    pairs = pa.StructArray.from_arrays(
        [pa.repeat(pa.scalar(name, pa.string()), count), pa.repeat(pa.scalar(data, pa.binary()), count)],
        fields=list(_PAIRS.value_type),
    )
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=_PAIRS)
