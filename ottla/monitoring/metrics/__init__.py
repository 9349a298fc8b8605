"""Metric primitives and their Prometheus output, shared by all programs."""
