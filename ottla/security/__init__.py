"""Who a client is, how it proves that, and what it may do. Pure: the broker and the clients wire it."""
