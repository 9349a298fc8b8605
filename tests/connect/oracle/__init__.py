"""Kafka's own transforms and converters beside ours: the same result, or the same message."""
