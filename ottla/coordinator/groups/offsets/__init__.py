"""Committed offsets of groups, also in transactions."""
