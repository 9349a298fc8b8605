"""Exactly once, from top to bottom; docs/exactly-once.md has the argument.

1. `task_transaction`: each task writes its rows in a transaction of its own and leaves it open.
2. `commit_log`: the driver decides that the batch is committed by appending one record to the query's commit log.
   What the records mean is a pure replay of that log.
3. `commit_topic`: the topic that holds the log.
4. `batch_commit`: the driver's steps around the decision: join the run, decide, end the transactions, clean up.
"""
