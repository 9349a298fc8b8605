"""Confluent's REST API: one module per resource, all routes in `routes`."""
