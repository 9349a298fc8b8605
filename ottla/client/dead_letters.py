"""The headers of a record in a dead-letter topic: from where it came, and why it could not be read."""

PREFIX = "ottla.dead.letter."
ERROR = PREFIX + "error"
REASON = PREFIX + "reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
#: In milliseconds; the dead letter itself has the time at which it was written.
TIMESTAMP = PREFIX + "timestamp"
