"""Cluster metadata: brokers, topics, assignments, leaders, configs."""
