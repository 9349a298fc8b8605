"""MariaDB and MySQL: a snapshot of the tables, then what the binary log says."""
