"""Clients that report every record as a line of JSON, for system tests."""
