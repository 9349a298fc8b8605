"""Who leads what: placement, partition roles, high watermark."""
