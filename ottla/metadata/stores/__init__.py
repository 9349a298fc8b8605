"""A tree of versioned nodes with two implementations: embedded and ZooKeeper."""
