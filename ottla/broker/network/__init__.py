"""Sockets: listeners, connections, and the path from a frame to its handler and back."""
