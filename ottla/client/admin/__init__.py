"""Cluster administration by topic: plain functions on `ottla.client.cluster.Cluster`.

Each request goes to the responsible broker (the controller, a coordinator, a leader, a given broker) and is retried
while that role moves. Failures raise a ClientError with one sentence.
"""
