"""Capacity planning: current load, headroom, loss of a broker, and what-if scenarios.

`measuring` asks any Kafka cluster over the wire; the rest is arithmetic. docs/how-to/plan-capacity.md has the formulas.
"""
