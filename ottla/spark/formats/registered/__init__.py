"""Avro, Protobuf and JSON Schema with schemas in a registry, in Confluent's wire format."""
