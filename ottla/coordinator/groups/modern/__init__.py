"""Groups to which the broker assigns partitions or tasks: state, target assignment, records."""
