"""Connections to ZooKeeper servers with TLS and login, for the broker's store and zookeeper-shell."""
