"""PostgreSQL: a snapshot of the tables, then what its log says, by the output plugin pgoutput."""
