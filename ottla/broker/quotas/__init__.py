"""Enforcement of client quotas, and rate measurement."""
