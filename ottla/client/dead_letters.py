"""The headers of a record in a dead-letter topic: from where it came, and why it could not be read.

There are two sets: those of our pipelines, and those that Kafka Connect gives to what a sink could not take.
"""

PREFIX = "ottla.dead.letter."
ERROR = PREFIX + "error"
REASON = PREFIX + "reason"
TOPIC = PREFIX + "topic"
PARTITION = PREFIX + "partition"
OFFSET = PREFIX + "offset"
#: In milliseconds; the dead letter itself has the time at which it was written.
TIMESTAMP = PREFIX + "timestamp"

CONNECT_PREFIX = "__connect.errors."
#: Kafka's names for the same. A dead letter of Connect has the timestamp of the record itself.
CONNECT_NAMES = {
    CONNECT_PREFIX + "exception.class.name": ERROR,
    CONNECT_PREFIX + "exception.message": REASON,
    CONNECT_PREFIX + "topic": TOPIC,
    CONNECT_PREFIX + "partition": PARTITION,
    CONNECT_PREFIX + "offset": OFFSET,
}
