"""Starting and stopping brokers and ZooKeeper, and looking into ZooKeeper."""
