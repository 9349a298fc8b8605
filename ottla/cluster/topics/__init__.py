"""Create, change and delete topics; change configurations and quotas."""
