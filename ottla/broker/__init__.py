"""The broker process: listeners, connections, request dispatch, lifecycle."""
