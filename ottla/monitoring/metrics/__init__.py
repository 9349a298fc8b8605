"""What all our programs count with, and how they show it to Prometheus. Knows nothing of what is counted."""
