"""Joins as Kafka Streams does them, one class each. They know nothing of columns: rows are tuples of sources' rows."""
