"""Providers of wrapping keys: a file, or HashiCorp Vault. See `ottla.security.encryption`."""
