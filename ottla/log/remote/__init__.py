"""Remote log segments (KIP-405): their metadata, their objects and reading them; knows neither brokers nor topics."""
