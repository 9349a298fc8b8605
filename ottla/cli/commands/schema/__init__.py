"""`ottla schema …`: what the schema registry holds."""
