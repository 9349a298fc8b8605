"""The client conformance suite: runs each case with every Kafka client that supports it."""
