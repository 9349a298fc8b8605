"""What several request handlers share."""
