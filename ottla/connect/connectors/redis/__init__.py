"""Redis sinks, with the settings of Redis' own sink and of Jeremy Custenborder's."""
