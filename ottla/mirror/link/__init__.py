"""The mirror that keeps offsets: topics of one cluster, byte for byte the same on another one.

`copy` moves the batches of one partition, `topics` makes the mirror topics, `mover` runs both on Spark, `promotion`
makes mirror topics ordinary ones. Positions are not stored: the end of the target's log is the position.
"""
