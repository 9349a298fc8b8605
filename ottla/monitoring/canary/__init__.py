"""Canary: writes and reads through every broker of a Kafka cluster, and reports losses and latencies."""
