"""A broker that authenticates its clients, and the ways in which clients log in."""
