"""Who reaches the registry, and what they may do: TLS, passwords, rights per subject."""
