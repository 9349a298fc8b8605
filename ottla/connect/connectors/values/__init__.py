"""Conversions of Connect values to plain Python, JSON, Arrow and Avro."""
