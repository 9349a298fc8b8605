"""One process per client: each agent executes JSON lines from stdin with the client it is named after."""
