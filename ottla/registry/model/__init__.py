"""What the registry knows and decides, without sockets, clocks and threads.

Records of `_schemas` go in and become the state; a command looks at the state and gives the records to write, or an
error. Nothing changes the state but records that were read.
"""
