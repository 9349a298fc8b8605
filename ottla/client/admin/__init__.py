"""Administration of a cluster, by family: plain functions over `ottla.client.cluster.Cluster`.

Each request goes to the broker that must answer it (the controller, a coordinator, a leader, a given broker) and is
asked again while that role moves. Failures are a ClientError, one sentence each.
"""
