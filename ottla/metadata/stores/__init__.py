"""A tree of versioned nodes, and the two stores of it: embedded and ZooKeeper."""
