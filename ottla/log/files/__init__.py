"""The small files of a log directory, and slices of the large ones."""
