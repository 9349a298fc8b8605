"""Fetch requests of consumers, followers and share consumers."""
