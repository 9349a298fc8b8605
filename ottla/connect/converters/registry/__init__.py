"""Confluent-compatible converters with a schema registry: Avro, JSON Schema and Protobuf."""
