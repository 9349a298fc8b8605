"""Oracles that must be imported before warnings become errors."""

import warnings

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)
    import kafka  # noqa: F401  (kafka-python reads its schemas with a deprecated call)
