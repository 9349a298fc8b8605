"""Tools for groups of every type."""
