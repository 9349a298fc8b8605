"""JDBC source and sink, with the settings, offsets and types of Confluent's connectors.

The connectors do not use JDBC: each dialect talks to its database through a Python driver.
"""
