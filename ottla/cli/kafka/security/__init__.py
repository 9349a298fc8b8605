"""Kafka's tools for ACLs and delegation tokens."""
