"""Configs that change at run time: brokers, topics, groups and client metrics."""
