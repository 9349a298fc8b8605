"""Who is at the other end of a connection: `ottla.security` wired to listeners, settings and the store."""
