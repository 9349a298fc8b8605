"""Running pipelines: a file of Python or SQL whose queries one process runs, watches and stops."""
