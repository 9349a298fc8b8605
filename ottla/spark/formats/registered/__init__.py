"""Formats whose schemas a registry keeps: Avro, Protobuf and JSON Schema, in Confluent's framing."""
