"""Group, share and transaction coordinators: state machines and their internal topics."""
