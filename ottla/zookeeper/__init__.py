"""How ZooKeeper's servers are reached: over TLS, with a login. For the broker's store and for zookeeper-shell."""
