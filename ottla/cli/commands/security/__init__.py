"""Commands for users, access rights and certificates."""
