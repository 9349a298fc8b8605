"""What all our programs count with, and Prometheus' text that shows it. Pure: no sockets, no event loop."""
