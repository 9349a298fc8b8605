"""Handling of failed records: retries, tolerance, logging, and dead letters."""
