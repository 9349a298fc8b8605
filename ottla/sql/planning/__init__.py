"""Planner from statements to Spark SQL."""
