"""Offsets, lag and replicas of any Kafka cluster, for Prometheus; a client over the wire."""
