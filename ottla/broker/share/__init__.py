"""Share groups at the broker that leads the partitions: records handed out, locks, sessions, state."""
