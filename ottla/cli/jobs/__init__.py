"""What the tools do against a broker, apart from how they show it: every job returns plain data."""
