"""Avro: schemas, their resolution, and columns of values."""
