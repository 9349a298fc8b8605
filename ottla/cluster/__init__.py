"""Cluster management: controller, elections, replication, reassignment, failure detection."""
