"""Exactly-once delivery; docs/explanation/exactly-once.md has the proof.

1. `task_transaction`: each task writes its rows in its own transaction and leaves it open.
2. `commit_log`: the driver commits the batch by appending one record to the query's commit log. The state is a pure
   replay of that log.
3. `commit_topic`: the topic that holds the log.
4. `batch_commit`: the driver's steps around the decision: join the run, decide, end the transactions, clean up.
"""
