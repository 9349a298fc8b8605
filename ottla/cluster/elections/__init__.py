"""Elections: the rule, and the partition states that carry it out."""
