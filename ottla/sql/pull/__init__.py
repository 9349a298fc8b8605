"""Pull queries by key: `SELECT … FROM table WHERE key = …` from an index, in milliseconds and without Spark.

1. `key_bounds` extracts keys and windows from WHERE. Without them, Spark scans the table.
2. `key_codec` converts record keys of each format to the sort keys of the index.
3. `table_index` is the index of a table's topic, a local LMDB file. Each query first catches up with the committed
   records. An index that no longer matches the topic is rebuilt.
4. `plain_rows` converts records to rows, without Spark if the SELECT only names columns.
5. `pull` combines these steps.

The result equals that of a scan. If Spark might read a key or a value differently, Spark processes the few records
found, or scans the table.
"""
