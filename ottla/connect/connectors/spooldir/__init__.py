"""Spool directory sources for lines, CSV and JSON, with the settings of Jeremy Custenborder's connectors."""
