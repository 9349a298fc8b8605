"""Kafka's tools about who may do what."""
