"""Validation of connector configs, with results in the REST API's format."""
