"""Java programs beside the broker: finding Java, and running ZooKeeper servers."""
