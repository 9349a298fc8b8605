"""Connect's values as others want them: plain Python, JSON, Arrow, Avro."""
