"""Stateful queries that Spark does not run like ksqlDB: joins, aggregates of tables, and sessions.

A query is a **flow** of rows through steps, in each micro-batch:

    the sources, one after the other → steps: `Stage` or `Projection` → the final SELECT → the topic

**A flow** is a DataFrame with the columns below, followed by its *payload*. The sources provide one struct column per
alias, so that `alias`.`column` in Spark SQL has the same meaning over a flow as over the sources.

| column | |
|---|---|
| `__input` INT | input of a stage: the number of the source, or 0 for the output of another stage |
| `__time` BIGINT | ROWTIME in milliseconds |
| `__deleted` BOOLEAN | for tables: the row is deleted, and the payload has only the known parts of the key |
| `__part` INT, `__seq` BIGINT | position: rows of one part are ordered by `__seq` |

**A stage** partitions the rows by a key, an expression over the flow for each input. An operator processes the rows of
each partition one by one, in the order of Kafka Streams. Rows of one part are ordered by `__seq`. Across parts, the
lowest next time comes first, and tables precede other inputs at equal times. Rows of inputs without a key expression
bypass the stage and reach a later one. Rows with a null key reach the operator with `record.key` None.

**An operator** is a class with a name, which names its state under the checkpoint, and

    def process(self, record: Record, state: State) -> Iterable[Record]

The driver creates the operator and pickles it for the tasks: it holds settings and no data. All data is in `state`, a
map from bytes to bytes (`ottla.spark.state`; `Namespace` splits it, `value_codec` turns values into bytes). A repeated
batch starts with the state from before the batch. So operators must be deterministic: no clock, no random numbers.

`record.values` is the payload as Python values, in column order. A struct is a tuple of its fields, or None.
Timestamps, dates and times are integers as in Arrow (microseconds, days, microseconds). Inside arrays and maps, values
follow Arrow's `to_pylist`. `process` returns the records for the next step; their `key` is ignored.

**A projection** is a SELECT over the view `FLOW`. It must keep the columns of the flow.

`Pipeline` in `runner.py` runs the steps; `joins/` and `aggregates/` provide the operators.
"""
