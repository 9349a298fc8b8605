"""One process per client: each agent obeys JSON lines on stdin with the client it is named after."""
