"""Committed offsets of groups, inside and outside transactions."""
