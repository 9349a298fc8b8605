"""Tools for partitions: reassignment, elections, offsets, log directories."""
