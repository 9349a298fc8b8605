"""The Kafka APIs: a module `kNN_name` serves the API with key NN, and names its behaviour."""

from __future__ import annotations

import pkgutil
from functools import cache


@cache
def served_keys() -> dict[int, str]:
    """Return the module of every served API."""
    names = (module.name for module in pkgutil.iter_modules(__path__))
    keys = ((name[1:].partition("_")[0], name) for name in names if name[0] == "k")
    return {int(key): f"{__name__}.{name}" for key, name in keys if key.isdigit()}
