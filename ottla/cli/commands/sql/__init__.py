"""`ottla sql`: the command, its shell, and rows on a terminal."""
