"""Confluent's Datagen: random records from an annotated Avro schema."""
