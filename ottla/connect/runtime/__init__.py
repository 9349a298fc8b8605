"""Runs connectors on Spark. The layers from top to bottom:

1. `engine`: the interface for workers. The engine starts a connector in the driver, where `supervisor` manages its
tasks.
2. `spark`: runs the tasks, as one Spark job with one Spark task for each task of the connector.
3. `tasks`: a task in an executor, in one thread. The connection to the driver carries reports up and stop requests
down.
4. `records` and `failures`: process the records of a task.
5. `offsets`: the offsets topic, the source of truth for sources. For sinks it is the group `connect-NAME`.
"""
