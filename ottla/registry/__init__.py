"""The schema registry: what producers and consumers agree on."""
