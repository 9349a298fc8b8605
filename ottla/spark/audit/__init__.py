"""The books of the count audit, balanced by Spark: the same verdicts as `ottla.monitoring.audit.books`, for books of any size."""
