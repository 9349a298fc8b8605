"""Commands about who may do what, and how that is known."""
