"""The balance of the count audit on Spark: the verdicts of `ottla.monitoring.audit.books` for any number of counts."""
