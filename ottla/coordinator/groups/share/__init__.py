"""Share groups (KIP-932): members, assignment, records. `coordinator.share` has the state of share-partitions."""
