"""Formats of keys and values: JSON with a schema, text, bytes."""
