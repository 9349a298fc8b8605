"""OAuth endpoints and tokens, without the SASL login itself."""
