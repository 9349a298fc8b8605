"""Common parts of all group types: their interface, effects and committed offsets."""
