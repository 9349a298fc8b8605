"""Tasks in executors, from start to stop, and their connection to the driver."""
