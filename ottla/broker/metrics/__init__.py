"""Metrics of a broker in Prometheus format."""
