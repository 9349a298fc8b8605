"""Authentication and authorization: `ottla.security` connected to listeners, settings and the store."""
