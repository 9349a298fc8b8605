"""Request handlers, one module per API, named by its key."""
