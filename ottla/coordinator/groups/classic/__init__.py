"""Classic groups: all members join, then the group leader assigns the partitions."""
