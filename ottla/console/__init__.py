"""The console: the whole platform in the browser, over the same clients that everybody uses."""
