"""The console producer and consumers."""
