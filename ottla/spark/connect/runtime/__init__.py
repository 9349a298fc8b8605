"""Runs connectors on Spark, from top to bottom:

1. `engine`: what a worker calls. A connector is started in the driver, which supervises its tasks.
2. `host`: where tasks run: in a Spark job that has one task for each of the connector's.
3. `control`: the connection of each running task to the driver: reports upwards, requests to stop downwards.
4. `source_task`, `sink_task`: what runs in an executor from start to stop, in one thread.
5. `offsets`: the offsets topic, which is the truth about sources; that about sinks is the group `connect-NAME`.
"""
