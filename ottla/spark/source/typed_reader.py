"""Decoding of keys and values at the source, from batches of bytes to batches of the requested types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from ottla.client.cluster import TopicPartition
from ottla.client.errors import ClientError
from ottla.client.schema_registry import Schema
from ottla.spark.formats.encrypted_columns import ColumnDecryptor, unfit, without_own_header
from ottla.spark.formats.json_decoder import Decoded, JsonDecoder
from ottla.spark.formats.registered.decoder import RegisteredDecoder, registered_decoder
from ottla.spark.formats.value_format import Format
from ottla.spark.source.dead_letters import DeadLetters
from ottla.spark.source.source_options import SourceOptions
from ottla.spark.source.typed_options import FAIL, TypedOptions

_KEY, _VALUE = 0, 1
_ERRORS = ("BadKey", "BadValue")


class TypedReader:
    """Owner: one task, which calls `finish` after its last batch."""

    def __init__(self, options: SourceOptions, partition: TopicPartition) -> None:
        typed = options.typed
        self._partition = partition
        self._fail = typed.bad_rows == FAIL
        self._bad_columns = typed.bad_columns
        self._with_headers = options.include_headers
        self._decoders = [
            _decoder(typed.key, typed.key_type, typed.key_reader, typed, "key"),
            _decoder(typed.value, typed.value_type, typed.value_reader, typed, "value"),
        ]
        self._decryptor: ColumnDecryptor | None = None
        if typed.decryption is not None:
            self._decryptor = ColumnDecryptor(typed.decryption, partition.topic)
        self._dead_letters: DeadLetters | None = None
        if typed.dead_letter_topic is not None:
            self._dead_letters = DeadLetters(options.settings, typed.dead_letter_topic, partition)

    def decode(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        decoded = [
            _decode(self._decoders[_KEY], batch.column(_KEY), _headers(batch), "key"),
            self._decode_values(batch),
        ]
        reasons = {
            row: (_ERRORS[which], reason)
            for which in (_VALUE, _KEY)
            for row, reason in decoded[which].reasons.items()
        }
        if reasons and self._fail:
            self._refuse(batch, reasons)
        columns = {name: batch.column(name) for name in batch.schema.names}
        columns["key"], columns["value"] = decoded[_KEY].column, decoded[_VALUE].column
        if not self._with_headers:
            columns.pop("headers", None)
        elif self._decryptor is not None:
            columns["headers"] = without_own_header(columns["headers"], decoded[_VALUE].reasons)
        for name in self._bad_columns:
            which = _KEY if name == "badKey" else _VALUE
            columns[name] = _only(batch.column(which), decoded[which].reasons)
        typed = pa.RecordBatch.from_pydict(columns)
        if reasons and self._dead_letters is not None:
            self._send_dead_letters(self._dead_letters, batch, reasons)
            good = np.ones(len(batch), np.bool_)
            good[list(reasons)] = False
            typed = typed.filter(pa.array(good))
        return typed

    def _decode_values(self, batch: pa.RecordBatch) -> Decoded:
        values = batch.column(_VALUE)
        if self._decryptor is None:
            return _decode(self._decoders[_VALUE], values, _headers(batch), "value")
        opened = self._decryptor.open(values, batch.column("headers"))
        decoded = _decode(self._decoders[_VALUE], opened.values, _headers(batch), "value")
        return Decoded(decoded.column, unfit(decoded.reasons) | opened.reasons)

    def finish(self) -> None:
        if self._dead_letters is not None:
            self._dead_letters.flush()

    def _refuse(self, batch: pa.RecordBatch, reasons: dict[int, tuple[str, str]]) -> None:
        row = min(reasons)
        error, reason = reasons[row]
        part = "key" if error == _ERRORS[_KEY] else "value"
        raise ClientError(
            f"The {part} at offset {batch.column('offset')[row]} of {self._partition} cannot be read: {reason}. "
            "Omit badRows=fail, or name a deadLetterTopic, to continue without it."
        )

    def _send_dead_letters(
        self, letters: DeadLetters, batch: pa.RecordBatch, reasons: dict[int, tuple[str, str]]
    ) -> None:
        rows = sorted(reasons)
        records = batch.take(pa.array(rows))
        milliseconds = records.column("timestamp").cast(pa.timestamp("ms", tz="UTC")).cast(pa.int64())
        for row, timestamp, record in zip(rows, milliseconds.to_pylist(), records.to_pylist(), strict=True):
            error, reason = reasons[row]
            key, value, headers = record["key"], record["value"], record["headers"]
            letters.add(key, value, headers, record["offset"], timestamp, error, reason)


def _decoder(
    kind: Format, data_type: Any, reader: Schema | None, options: TypedOptions, part: str
) -> JsonDecoder | RegisteredDecoder | pa.DataType:
    if kind.source is not None:
        columns = None if kind.schema is None else data_type.json()
        return registered_decoder(kind.name, kind.source, reader or Schema(""), columns, part)
    if kind.schema is not None:
        return JsonDecoder(data_type, options.time_zone, lax=options.lax_numbers)
    return pa.string() if kind.name == "text" else pa.binary()


def _decode(
    decoder: JsonDecoder | RegisteredDecoder | pa.DataType,
    column: pa.BinaryArray,
    headers: pa.ListArray | None,
    part: str,
) -> Decoded:
    if isinstance(decoder, RegisteredDecoder):
        return decoder.decode(column, headers, part)
    if isinstance(decoder, JsonDecoder):
        return decoder.decode(column)
    # As in CAST(value AS STRING), keep invalid UTF-8 unchanged.
    buffers = column.buffers()
    return Decoded(pa.Array.from_buffers(decoder, len(column), buffers, offset=column.offset), {})


def _headers(batch: pa.RecordBatch) -> pa.ListArray | None:
    return batch.column("headers") if "headers" in batch.schema.names else None


def _only(column: pa.BinaryArray, rows: dict[int, str]) -> pa.BinaryArray:
    if not rows:
        return pa.nulls(len(column), pa.binary())
    wanted = np.zeros(len(column), np.bool_)
    wanted[list(rows)] = True
    return pa.compute.if_else(pa.array(wanted), column, pa.scalar(None, pa.binary()))
