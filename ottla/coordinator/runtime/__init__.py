"""Internal topics and timers, shared by the group, share and transaction coordinators."""
