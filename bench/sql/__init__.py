"""`make bench-sql`: what SQL costs as tables grow, how fast a key is looked up, and how fast windows are counted."""
