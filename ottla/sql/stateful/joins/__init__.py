"""Joins as in Kafka Streams, one class each. They know no columns: a row is a tuple of source rows."""
