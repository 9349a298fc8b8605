"""Topics into Redis, by the settings of Redis' own sink and of Jeremy Custenborder's."""
