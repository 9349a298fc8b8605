"""From a request to a page."""
