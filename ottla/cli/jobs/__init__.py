"""Work of the tools without its display: every job returns plain data."""
