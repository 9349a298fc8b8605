"""Tools for configurations, quotas, credentials and features."""
