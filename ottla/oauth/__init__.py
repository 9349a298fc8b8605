"""OAuth outside of the login itself: where tokens and keys are fetched."""
