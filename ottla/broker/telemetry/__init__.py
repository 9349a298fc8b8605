"""Metrics that clients push (KIP-714): who is asked for which, and where they are passed on to."""
