"""The topic `_schemas`: who may be it, how it is read and written. The only place of the registry that blocks."""
