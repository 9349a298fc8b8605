"""Avro, as Java's library 1.12 parses, prints and compares it."""

from ottla.registry.schemas.avro.schema import AvroSchema, parse_avro

__all__ = ["AvroSchema", "parse_avro"]
