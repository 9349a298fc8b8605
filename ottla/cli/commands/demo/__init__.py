"""`ottla demo`: a broker, a feed and a pipeline, and what the pipeline finds."""
