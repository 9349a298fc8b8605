"""The schema registry and the REST proxy under load: `python -m bench.http`, or `make bench-registry`."""
