"""Count audit on Spark: the verdicts of `ottla.monitoring.audit.books` for any number of counts."""
