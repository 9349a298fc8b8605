"""Tiered storage (KIP-405): copies segments to remote storage, and reads them."""
