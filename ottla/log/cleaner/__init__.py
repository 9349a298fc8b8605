"""Compaction: keeps the last record of every key, and never changes offsets."""
