"""Other servers beside a cluster, as the console asks them."""
