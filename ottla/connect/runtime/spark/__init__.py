"""Spark integration: jobs for tasks, the worker's session, and the forked Python processes."""
