"""The custom transform shown in docs/reference/connect/transforms.md."""

from __future__ import annotations

from ottla.connect.data.record import ConnectRecord


def only_large(record: ConnectRecord, *, least: int = 10) -> ConnectRecord | None:
    return record if record.value["amount"] >= least else None


def fails(record: ConnectRecord) -> ConnectRecord:
    raise KeyError("amount")


def returns_nonsense(record: ConnectRecord) -> str:
    return "text"
