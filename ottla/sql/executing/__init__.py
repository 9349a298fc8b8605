"""What statements do, once they are parsed; `session` knows which of them is for which statement."""
