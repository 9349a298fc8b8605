"""Who leads what: controller, elections, replication, reassignment, failure detection."""
