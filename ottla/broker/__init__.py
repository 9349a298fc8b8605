"""The process: listener, connections, request dispatch, lifecycle."""
