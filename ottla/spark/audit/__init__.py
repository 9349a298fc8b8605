"""Count audit on Spark: the verdicts of `ottla.monitoring.audit.tier_counts` for any number of counts."""
