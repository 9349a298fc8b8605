"""Share groups of KIP-932: members, assignment, records. The state of share-partitions is in `coordinator.share`."""
