"""A proof that nothing was lost on the way: what each tier counted of a topic, by time, and whether the books balance.

A tier is a place that records pass: a cluster, its mirror, the topic that a pipeline copies to. `counting` asks any
Kafka cluster over the wire; `books` is arithmetic.
"""
