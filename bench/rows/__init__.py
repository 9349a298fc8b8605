"""The rows of the tables, by what they measure."""
