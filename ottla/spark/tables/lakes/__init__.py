"""Tables of a topic in Iceberg and Delta: opening, reading, committing and looking after them."""
