"""The controller: elections, partition states, and liveness of brokers and disks."""
