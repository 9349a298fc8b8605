"""Our one client, small and blocking: connections, administration, raw fetches and transactions.

Tools, SQL and Spark stand on it. Code that only produces or consumes uses confluent-kafka.
"""
