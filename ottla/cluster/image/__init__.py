"""Keeps the cluster image in sync with the metadata store."""
