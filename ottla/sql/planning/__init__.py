"""From a statement to Spark SQL."""
