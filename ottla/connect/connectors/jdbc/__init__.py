"""Tables of databases as source and sink, with the settings, offsets and types of Confluent's JDBC connectors.

No JDBC is used: each dialect speaks through a Python driver.
"""
