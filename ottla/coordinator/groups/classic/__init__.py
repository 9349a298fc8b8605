"""Classic groups: members wait for each other, and one of them assigns."""
