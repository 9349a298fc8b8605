"""Compacted topics as storage: read from the beginning, and written by one leader or by many."""
