"""Configurations of brokers, topics, groups and client metrics: definitions and effective values."""
