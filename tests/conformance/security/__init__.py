"""A broker that asks who its clients are, and the ways in which clients tell it."""
