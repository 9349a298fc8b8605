"""Where the keys come from that wrap data keys: a file, or HashiCorp Vault. See `ottla.security.encryption`."""
