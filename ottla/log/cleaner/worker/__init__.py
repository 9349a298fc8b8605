"""Code of the cleaner process."""
