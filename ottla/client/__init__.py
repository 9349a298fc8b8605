"""A small blocking client, for what speaks to a broker without being a producer or a consumer."""
