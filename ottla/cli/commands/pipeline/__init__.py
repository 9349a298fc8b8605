"""`ottla pipeline …`: run, watch and stop pipelines."""
