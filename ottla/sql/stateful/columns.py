"""The columns that every flow has. Workers import this, so it imports nothing."""

INPUT, TIME, REMOVED, PART, SEQ, KEY = "__input", "__time", "__deleted", "__part", "__seq", "__key"
#: In this order, and before the payload.
HEAD = (INPUT, TIME, REMOVED, PART, SEQ)
