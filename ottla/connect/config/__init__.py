"""Config definitions, validation and config providers."""
