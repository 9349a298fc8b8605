"""Share groups on the partition leader: record delivery, locks, sessions, state."""
