"""Groups and their committed offsets, stored in `__consumer_offsets`."""
