"""Rights of the current user."""

from __future__ import annotations

from ottla.client.cluster import Cluster
from ottla.client.errors import check_accepted
from ottla.protocol.messages.cluster import DescribeClusterRequest, DescribeClusterResponse
from ottla.security.acls import Operation


def cluster_operations(cluster: Cluster) -> frozenset[Operation]:
    """Return the allowed operations on the CLUSTER resource; none without the right to describe it."""
    request = DescribeClusterRequest(include_cluster_authorized_operations=True)
    answer = cluster.any_connection().request(request, DescribeClusterResponse)
    check_accepted("The rights on the cluster", answer)
    bits = max(answer.cluster_authorized_operations, 0)
    return frozenset(each for each in Operation if bits >> each & 1)
