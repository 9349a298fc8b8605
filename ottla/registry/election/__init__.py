"""Which node writes: an election by the protocol of consumer groups, as Confluent's registry holds it."""
