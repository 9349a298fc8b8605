"""Formats of keys and values: JSON, Avro, Protobuf, JSON Schema, text and bytes."""
