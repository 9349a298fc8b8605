"""Compaction: keep the last record of every key, and every offset as it was."""
