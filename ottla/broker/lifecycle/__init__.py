"""Starting, running and stopping a broker."""
