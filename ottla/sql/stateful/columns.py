"""Columns of every flow. Workers import this module, so it imports nothing."""

INPUT, TIME, REMOVED, PART, SEQ, KEY = "__input", "__time", "__deleted", "__part", "__seq", "__key"
#: In this order, before the payload.
HEAD = (INPUT, TIME, REMOVED, PART, SEQ)
