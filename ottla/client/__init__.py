"""Ottla's own small blocking client: connections, administration, raw fetches and transactions.

Tools, SQL and Spark build on it. Code that only produces or consumes uses confluent-kafka.
"""
