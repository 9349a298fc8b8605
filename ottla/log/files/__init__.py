"""Small files of a log directory, and regions of the large ones."""
