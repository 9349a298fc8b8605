"""Observing clusters: metrics, lag, counts, probes and plans for capacity."""
