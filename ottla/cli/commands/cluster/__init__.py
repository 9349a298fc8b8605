"""Commands of operators, about a whole cluster."""
