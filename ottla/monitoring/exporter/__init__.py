"""Prometheus exporter for offsets, lag and replicas of any Kafka cluster, over the wire."""
