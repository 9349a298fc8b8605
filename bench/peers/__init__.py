"""What Ottla is measured beside, and how it is started."""
