"""Run Kafka's classes and compare the results."""

from __future__ import annotations

import datetime as dt
import math
import os
import pickle
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from bench.peers.apache_kafka import APPLICATION_ARTIFACTS, VERSION, Unavailable, java, resolve
from ottla.connect.data import logical
from ottla.connect.data.java_values import Float32, as_float32
from ottla.connect.data.record import ConnectRecord
from ottla.connect.data.schema import Schema
from ottla.connect.data.struct import Struct


def ask(cases: list[tuple[str, Any]]) -> list[list[Any]]:
    pytest.importorskip("jpype")
    try:
        java()
        jars = resolve(f"kafka-applications-{VERSION}", APPLICATION_ARTIFACTS)
    except Unavailable as reason:
        pytest.skip(str(reason))
    classpath = ":".join(sorted(map(str, jars.glob("*.jar"))))
    with tempfile.TemporaryDirectory() as directory:
        given, found = Path(directory, "cases"), Path(directory, "answers")
        given.write_bytes(pickle.dumps(cases))
        command = [
            sys.executable,
            "-m",
            "tests.connect.oracle.java_side",
            classpath,
            str(given),
            str(found),
        ]
        root = Path(__file__).parents[3]
        done = subprocess.run(
            command,
            cwd=root,
            env={**os.environ, "PYTHONPATH": str(root)},
            capture_output=True,
            text=True,
            timeout=400,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        return pickle.loads(found.read_bytes())


def comparable(value: Any) -> Any:
    """Normalise results: a Java date maps to all our date types, NaN equals itself, and empty parameters equal none."""
    if isinstance(value, dt.date | dt.time):
        return ("millis", logical.millis_of(value))
    if isinstance(value, Float32):
        return ("float", "NaN" if math.isnan(value) else float(value))
    if isinstance(value, float):
        return ("double", "NaN" if math.isnan(value) else value)
    if isinstance(value, bool):
        return ("boolean", value)
    if isinstance(value, Struct):
        return ("struct", comparable(value.schema), [
            _of_field(each, field.schema) for each, field in zip(value.values, value.schema.fields, strict=True)
        ])  # fmt: skip
    if isinstance(value, Schema):
        return (
            value.type.name, value.optional, _of_field(value.default, value), value.name, value.version, value.doc,
            dict(value.parameters or {}), [(each.name, comparable(each.schema)) for each in value.fields],
            comparable(value.key_schema), comparable(value.value_schema),
        )  # fmt: skip
    if isinstance(value, ConnectRecord):
        return {
            "topic": value.topic, "partition": value.partition, "timestamp": value.timestamp,
            "key": (comparable(value.key_schema), _of_field(value.key, value.key_schema)),
            "value": (comparable(value.value_schema), _of_field(value.value, value.value_schema)),
            "headers": [(each.key, _of_field(each.value, each.schema), comparable(each.schema)) for each in value.headers],
        }  # fmt: skip
    if isinstance(value, dict):
        return {key: comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, tuple):
        return tuple(comparable(each) for each in value)
    return value


def _of_field(value: Any, schema: Schema | None) -> Any:
    """Normalise numbers: Python's float covers both float32 and float64."""
    found = comparable(value)
    if (
        schema is not None
        and isinstance(found, tuple)
        and found
        and found[0] == "double"
        and schema.type.name == "FLOAT32"
    ):
        return comparable(as_float32(value))
    if schema is not None and isinstance(value, list) and schema.value_schema is not None:
        return [_of_field(each, schema.value_schema) for each in value]
    if schema is not None and isinstance(value, dict) and schema.value_schema is not None:
        return {key: _of_field(each, schema.value_schema) for key, each in value.items()}
    return found
