"""Iteration over single records: compiled by numba, and in plain Python."""
