"""Connectors that are written in Java, from the jars of `plugin.path`, inside a Python process.

1. `jars`: which connectors there are, read from the jars without Java.
2. `machine`: the one Java machine of a process, with a class loader for each plugin.
3. `data`: records to Java and back, as JSON with schemas.
4. `connectors`, `tasks`: the interfaces of `api.py` in front of Java's.
"""
