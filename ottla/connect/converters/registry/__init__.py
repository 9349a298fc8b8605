"""Converters whose schemas are in a registry: Avro, JSON Schema and Protobuf, as Confluent's of the same names."""
