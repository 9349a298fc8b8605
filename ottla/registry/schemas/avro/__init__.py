"""Avro: parsing, printing and comparison as in Java's library 1.12."""

from ottla.registry.schemas.avro.schema import AvroSchema, parse_avro

__all__ = ["AvroSchema", "parse_avro"]
