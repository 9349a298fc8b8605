"""Log storage on disk, independent of network and leadership."""
