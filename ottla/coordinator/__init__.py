"""Groups and their offsets, transactions: state machines and their internal topics."""
