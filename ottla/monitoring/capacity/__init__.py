"""What a cluster carries, what is left, whether it survives the loss of a broker, and what would be if …

`measuring` asks any Kafka cluster over the wire; the rest is arithmetic. docs/capacity.md has the formulas.
"""
