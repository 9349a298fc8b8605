"""Avro: schemas, schema resolution and column codecs."""
