"""Client quotas in force, and how rates are measured."""
