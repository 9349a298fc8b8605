"""`ottla demo`: a broker, a feed, and a pipeline with its results."""
