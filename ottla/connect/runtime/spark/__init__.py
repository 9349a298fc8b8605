"""Where tasks run: Spark's jobs, the session of a worker, and the processes that Spark forks."""
