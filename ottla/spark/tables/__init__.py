"""Tables: a topic as its latest values, and DataFrames kept in Parquet, Delta or a database."""
