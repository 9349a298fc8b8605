"""Share-partitions (KIP-932), and the share coordinator with its state in `__share_group_state`."""
