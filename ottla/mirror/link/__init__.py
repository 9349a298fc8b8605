"""Offset-preserving mirror: topics on the target are byte-for-byte copies of the source topics.

`copy` moves the batches of one partition, `topics` creates the mirror topics, `mover` runs both on Spark, and
`promotion` turns mirror topics into ordinary topics. The log end offset of the target is the position, so positions are
not stored.
"""
