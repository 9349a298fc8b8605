"""Java connectors from the jars in `plugin.path`, run inside a Python process.

1. `jars`: finds the connectors in the jars without starting Java.
2. `machine`: the JVM of a process, with one class loader per plugin.
3. `data`: converts records to Java and back, as JSON with schemas.
4. `connectors`, `tasks`: implement the interfaces of `api.py` on top of Java's.
"""
