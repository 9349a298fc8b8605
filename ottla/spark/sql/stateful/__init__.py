"""Queries with state of our own: what Spark has no way for, or not ksqlDB's way."""
