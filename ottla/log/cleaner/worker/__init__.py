"""What runs in the cleaner's own process."""
