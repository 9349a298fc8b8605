"""State of a cluster."""
