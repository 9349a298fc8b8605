"""What runs on a Java virtual machine beside the broker: where Java is, and ZooKeeper's server."""
