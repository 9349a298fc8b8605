"""The controller: elections, partition states, and which brokers and disks are alive."""
