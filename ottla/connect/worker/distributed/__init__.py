"""Workers that share connectors: their group, the assignment, and requests between workers."""
