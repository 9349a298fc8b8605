"""How a figure is taken, and how the table is printed."""
