"""State and decisions of the registry, without sockets, clocks and threads.

Records of `_schemas` make up the state. A command reads the state and returns the records to write, or an error. Only
records that were read back change the state.
"""
