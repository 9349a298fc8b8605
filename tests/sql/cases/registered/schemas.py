"""The formats, and schemas shared by several cases."""

from __future__ import annotations

import json

from tests.sql.cases.case import Registered

AVRO, PROTOBUF, JSON_SR = "AVRO", "PROTOBUF", "JSON_SR"
ALL = (AVRO, PROTOBUF, JSON_SR)
#: The registry's names.
KIND = {AVRO: "AVRO", PROTOBUF: "PROTOBUF", JSON_SR: "JSON"}

_USER = {
    AVRO: json.dumps(
        {
            "type": "record",
            "name": "User",
            "namespace": "com.acme",
            "fields": [
                {"name": "name", "type": "string"},
                {"name": "userAge", "type": ["null", "int"], "default": None},
            ],
        }
    ),
    PROTOBUF: 'syntax = "proto3"; package acme; message User { string name = 1; optional int32 userAge = 2; }',
    JSON_SR: json.dumps(
        {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "userAge": {"type": "integer", "connect.type": "int32"},
            },
        }
    ),
}


def user(form: str, subject: str = "s-value") -> Registered:
    """Return a record with `name` and `userAge`."""
    return Registered(subject, _USER[form], KIND[form])


def avro(subject: str, *fields: dict[str, object], name: str = "R") -> Registered:
    return Registered(subject, json.dumps({"type": "record", "name": name, "fields": list(fields)}))


def proto(subject: str, body: str) -> Registered:
    return Registered(subject, f'syntax = "proto3";\n{body}', "PROTOBUF")


def json_schema(subject: str, document: dict[str, object]) -> Registered:
    return Registered(subject, json.dumps(document), "JSON")


def field(name: str, kind: object, **more: object) -> dict[str, object]:
    return {"name": name, "type": kind, **more}
