"""The client conformance suite: what Kafka's clients do, each case with each client that can do it."""
