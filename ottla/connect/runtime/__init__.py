"""Runs connectors on Spark, from top to bottom:

1. `engine`: what a worker calls. A connector is started in the driver, where `supervisor` looks after its tasks.
2. `spark`: where tasks run: in a Spark job that has one task for each of the connector's.
3. `tasks`: what runs in an executor from start to stop, in one thread; its connection to the driver carries reports
   upwards and requests to stop downwards. `records` and `failures` are what tasks do with a record.
4. `offsets`: the offsets topic, which is the truth about sources; that about sinks is the group `connect-NAME`.
"""
