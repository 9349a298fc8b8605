"""Who a client is."""
