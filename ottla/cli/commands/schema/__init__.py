"""`ottla schema …`: schemas in a registry."""
