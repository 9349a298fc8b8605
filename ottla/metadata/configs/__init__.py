"""Configurations of brokers, topics, groups and client metrics: definitions and values in force."""
