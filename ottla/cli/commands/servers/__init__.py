"""`ottla start` and `ottla zookeeper`: what runs until Ctrl-C."""
