"""Partitions of this broker: leader and follower roles, ISR, high watermark, and their purgatory."""
