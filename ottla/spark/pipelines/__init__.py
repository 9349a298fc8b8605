"""Pipelines as things that are run, watched and stopped: a file of Python or SQL whose queries one process owns."""
