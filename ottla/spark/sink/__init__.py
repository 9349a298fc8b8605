"""Sink of `format("ottla")`: writers, the producer and the exactly-once commit."""
