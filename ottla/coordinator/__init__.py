"""Consumer groups and their offsets: state machines and their internal topic."""
