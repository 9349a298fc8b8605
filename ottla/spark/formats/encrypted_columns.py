"""Encryption of value columns before writing, and decryption after reading.

Each worker requests its own keys and keeps them only in memory. See `ottla.security.encryption`.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ottla.client.errors import ClientError
from ottla.records.kernels.record_columns import HEADERS_TYPE
from ottla.security.encryption.headers import HEADER
from ottla.security.encryption.key_provider import BadValue, EncryptionError
from ottla.spark.formats.encryption_options import (
    KEYS,
    Decryption,
    Encryption,
    make_decryptor,
    make_encryptor,
)

#: Keep details of decrypted values out of errors, which go to logs and dead letters.
_UNFIT = "the value, once it is decrypted, does not fit the schema"

# Shared by all tasks of a worker, so that a data key serves several micro-batches.
_shared_encryptor = functools.lru_cache(maxsize=32)(make_encryptor)
_shared_decryptor = functools.lru_cache(maxsize=32)(make_decryptor)


# -- writing ------------------------------------------------------------------------------------------------


def encrypted(
    options: Encryption, topic: str, values: pa.Array, headers: pa.Array | None
) -> tuple[pa.Array, pa.Array]:
    """Return the encrypted values and the headers. Nulls stay null and get no header."""
    if headers is not None and pc.any(pc.equal(headers.flatten().field(0), HEADER)).as_py():
        raise ClientError(
            f"A row has a header {HEADER}, so its value is already encrypted. Drop the column 'headers', or read the "
            f"topic with {KEYS}."
        )
    encryptor = _shared_encryptor(options)
    sealed: list[bytes | None] = []
    own: list[bytes | None] = []
    try:
        for value in values.cast(pa.binary()).to_pylist():
            if value is None:
                sealed.append(None)
                own.append(None)
                continue
            data, header = encryptor.seal(topic, value)
            sealed.append(data)
            own.append(header)
    except EncryptionError as error:
        raise ClientError(str(error)) from None
    rows = [None] * len(own) if headers is None else headers.to_pylist()
    added = [
        row if header is None else [*(row or ()), {"key": HEADER, "value": header}]
        for row, header in zip(rows, own, strict=True)
    ]
    return pa.array(sealed, pa.binary()), pa.array(added, HEADERS_TYPE)


# -- reading ------------------------------------------------------------------------------------------------


class Opened(NamedTuple):
    """`values` are null if decryption failed; `reasons` has the error by row."""

    values: pa.BinaryArray
    reasons: dict[int, str]


class ColumnDecryptor:
    """Decrypts the values of one topic, for one task."""

    def __init__(self, options: Decryption, topic: str) -> None:
        self._decryptor = _shared_decryptor(options)
        self._topic = options.topic or topic

    def open(self, values: pa.BinaryArray, headers: pa.ListArray) -> Opened:
        opened: list[bytes | None] = []
        own, reasons = _own_headers(headers)
        for row, (value, header) in enumerate(zip(values.to_pylist(), own, strict=True)):
            plain = None
            if row not in reasons:
                try:
                    plain = self._decryptor.open(self._topic, value, header)
                except BadValue as error:
                    reasons[row] = _clause(error)
                except EncryptionError as error:
                    raise ClientError(str(error)) from None
            opened.append(plain)
        return Opened(pa.array(opened, pa.binary()), reasons)


def unfit(reasons: dict[int, str]) -> dict[int, str]:
    return dict.fromkeys(reasons, _UNFIT)


def without_own_header(headers: pa.ListArray, kept: dict[int, str]) -> pa.ListArray:
    """Remove the encryption header from decrypted rows. Rows in `kept` are still encrypted and keep it."""
    rows = [
        pairs if pairs is None or row in kept else [pair for pair in pairs if pair["key"] != HEADER] or None
        for row, pairs in enumerate(headers.to_pylist())
    ]
    return pa.array(rows, headers.type)


def _own_headers(headers: pa.ListArray) -> tuple[list[bytes | None], dict[int, str]]:
    found: list[bytes | None] = [None] * len(headers)
    reasons: dict[int, str] = {}
    pairs = headers.flatten()
    which = pc.indices_nonzero(pc.equal(pairs.field(0), HEADER))
    rows = pc.list_parent_indices(headers).take(which).to_pylist()
    # Nearly all rows share the same header value.
    values = pairs.field(1).take(which).dictionary_encode()
    distinct = values.dictionary.to_pylist()
    for row, code in zip(rows, values.indices.to_pylist(), strict=True):
        if found[row] is not None:
            reasons[row] = f"the record has the header {HEADER} more than once"
        found[row] = b"" if code is None else distinct[code]
    return found, reasons


def _clause(error: EncryptionError) -> str:
    text = str(error).rstrip(".")
    return text[:1].lower() + text[1:]
