"""Workers that share connectors: their group, who gets what, and what they ask of each other."""
