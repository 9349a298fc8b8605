"""Requests, routes and page rendering."""
