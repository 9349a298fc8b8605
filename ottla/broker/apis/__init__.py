"""One module per API, named by its key."""
