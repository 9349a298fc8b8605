"""Delta and Iceberg sinks that append or upsert, from plain topics and from change events."""
