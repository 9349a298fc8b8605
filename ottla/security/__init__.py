"""Authentication and authorization of clients. Pure: brokers and clients connect it to the network."""
