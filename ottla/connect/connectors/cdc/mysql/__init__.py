"""MariaDB and MySQL: a snapshot of the tables, then the changes in the binary log."""
