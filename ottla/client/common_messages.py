"""Protobuf files that schemas import without a reference, and that Protobuf's own library lacks.

Connect and ksqlDB use them for dates, times of day and decimals.
"""

from __future__ import annotations

from typing import Any

#: File → package, message, and its fields with their types, numbered in order.
_FILES = {
    "google/type/date.proto": ("google.type", "Date", {"year": "int32", "month": "int32", "day": "int32"}),
    "google/type/timeofday.proto": (
        "google.type",
        "TimeOfDay",
        {"hours": "int32", "minutes": "int32", "seconds": "int32", "nanos": "int32"},
    ),
    "confluent/type/decimal.proto": (
        "confluent.type",
        "Decimal",
        {"value": "bytes", "precision": "uint32", "scale": "int32"},
    ),
}


def add_common_messages(pool: Any) -> None:
    """Add the files to a descriptor pool that has google/protobuf/descriptor.proto."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto as Field
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    kinds = {"int32": Field.TYPE_INT32, "uint32": Field.TYPE_UINT32, "bytes": Field.TYPE_BYTES}
    for path, (package, name, fields) in _FILES.items():
        file = FileDescriptorProto(name=path, package=package, syntax="proto3")
        message = file.message_type.add(name=name)
        for number, (each, kind) in enumerate(fields.items(), 1):
            message.field.add(name=each, number=number, type=kinds[kind], label=Field.LABEL_OPTIONAL)
        pool.Add(file)
    # Its options do not affect the encoding.
    meta = FileDescriptorProto(name="confluent/meta.proto", package="confluent", syntax="proto3")
    pool.Add(meta)
