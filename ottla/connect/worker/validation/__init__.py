"""What is wrong with a connector's config, in the shape in which the REST API says it."""
