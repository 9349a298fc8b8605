"""Queries whose state Spark does not keep as ksqlDB does: joins, aggregates of tables, sessions.

A query is a **flow** of rows through steps, in each micro-batch:

    the sources, one after the other → steps: `Stage` or `Projection` → the final SELECT → the topic

**A flow** is a DataFrame with these columns, and after them any others, its *payload*. The sources make one struct
column for each alias, so that `alias`.`column` in Spark SQL means the same over a flow as over the sources themselves.

| column | |
|---|---|
| `__input` INT | which input of a stage the row is for: the number of its source, 0 for what another stage made |
| `__time` BIGINT | ROWTIME in milliseconds |
| `__deleted` BOOLEAN | of a table: its row is deleted; the payload has only what is known of the key |
| `__part` INT, `__seq` BIGINT | its place: rows of one part are in the order of `__seq` |

**A stage** spreads the rows over partitions by a key, which is an expression over the flow for each input, and has an
operator process those of each partition one after the other, in the order of Kafka Streams: within a part in the order
of `__seq`, across parts by the lowest time that comes next, inputs that are tables before the others at equal times.
Rows of inputs that have no key expression pass it by, for a later stage. Rows without a key come to the operator with
`record.key` None.

**An operator** is a class with a name, which is the name of its state under the checkpoint, and

    def process(self, record: Record, state: State) -> Iterable[Record]

The driver makes it and pickles it for the tasks: it holds settings and no data. It keeps all data in `state`, a map
from bytes to bytes (`ottla.spark.state`; `Namespace` splits it, `value_codec` turns values into bytes). A repeated
batch gets the state from before the batch, so an operator must make the same of the same records: no clock, no chance.

`record.values` is the payload as Python values, in the order of the columns. A struct is a tuple of its fields, or
None; timestamps, dates and times are integers, as Arrow has them (microseconds, days, microseconds); inside arrays and
maps it is as Arrow's `to_pylist` says. What `process` returns are records for the next step; `key` of those does not
matter.

**A projection** is a SELECT over the view `FLOW`; it must hand on the columns of the flow.

`Pipeline` in `runner.py` runs it; `joins/` and `aggregates/` are what there is to run.
"""
