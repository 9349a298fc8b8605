"""Keeps the image of the cluster up to date with the metadata store."""
