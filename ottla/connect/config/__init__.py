"""Configs: their definitions, what is wrong with them, and values that come from elsewhere."""
