"""Creating, changing and deleting topics, and changing configurations and quotas."""
