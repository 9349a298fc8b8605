"""Pull queries by key: `SELECT … FROM table WHERE key = …` out of an index, in milliseconds and without Spark.

1. `key_bounds`: which keys and windows a WHERE asks for; if it does not say, the table is scanned by Spark.
2. `key_codec`: the key of a record, in each format, as the bytes that the index is ordered by.
3. `table_index`: the index of a table's topic, an LMDB file on this machine. It is brought up to what is committed
   before each answer, and made anew if it does not belong to the topic any more.
4. `plain_rows`: what was found as rows, without Spark where columns are only named.
5. `pull`: all of it together.

An answer is what a scan would give: where that is not sure (a key or a value that Spark may read differently), the
scan or Spark over the few records found gives it.
"""
