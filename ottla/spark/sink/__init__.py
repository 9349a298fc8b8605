"""Writing: the sink of `format("ottla")`, its producer and its exactly-once commit."""
