"""PostgreSQL: a snapshot of the tables, then the changes from the output plugin pgoutput."""
