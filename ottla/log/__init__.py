"""Bytes on disk. Knows nothing of the network or of who leads."""
