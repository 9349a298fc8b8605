"""Reading log directories without a broker."""
