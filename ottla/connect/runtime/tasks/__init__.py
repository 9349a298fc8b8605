"""What runs in an executor: a task from its start to its stop, and its connection to the driver."""
