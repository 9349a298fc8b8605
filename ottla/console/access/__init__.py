"""Identity and rights of visitors."""
