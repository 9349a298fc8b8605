"""Kafka's tools for Connect."""
