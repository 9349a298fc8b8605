"""Replication on followers: fetching from leaders, truncation, throttles."""
