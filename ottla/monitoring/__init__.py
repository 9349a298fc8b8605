"""Cluster monitoring: metrics, lag, count audits, probes and capacity planning."""
