"""Our one client, small and blocking: connections, administration, raw fetches and transactions.

Tools, SQL and Spark stand on it. Whoever only produces or consumes uses confluent-kafka.
"""
