"""ksqlDB's REST API over one Spark session."""
