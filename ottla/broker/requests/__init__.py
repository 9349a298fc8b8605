"""Code shared by several request handlers."""
