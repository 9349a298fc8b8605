"""Data contract rules of a schema for writers and readers."""
