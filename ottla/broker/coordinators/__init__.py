"""Connects the coordinators to this broker's partitions, topics and settings."""
