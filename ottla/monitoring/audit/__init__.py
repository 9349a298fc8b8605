"""Proof of lossless delivery: each tier counts a topic's records by time, and an audit balances the counts.

A tier is a place that records pass: a cluster, its mirror, or the target topic of a pipeline. `counting` asks any Kafka
cluster over the wire; `tier_counts` is arithmetic.
"""
