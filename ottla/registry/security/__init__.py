"""Security of the registry: TLS, passwords, rights per subject."""
