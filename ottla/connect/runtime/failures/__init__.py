"""What is done about records that fail: retries, tolerance, the log, and dead letters."""
