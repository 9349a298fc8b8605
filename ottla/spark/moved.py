"""Import hook for the former module names of packages that moved out of `ottla.spark`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_MOVED = {
    "ottla.spark.connect": "ottla.connect",
    "ottla.spark.kernels": "ottla.records.kernels",
    "ottla.spark.mirror": "ottla.mirror",
    "ottla.spark.sql": "ottla.sql",
}


class MovedModules(MetaPathFinder, Loader):
    """Resolves an old module name to the module with the new name, not to a copy."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return None if _new_name(fullname) is None else ModuleSpec(fullname, self)

    def exec_module(self, module: ModuleType) -> None:
        new = _new_name(module.__name__)
        assert new is not None
        sys.modules[module.__name__] = import_module(new)


def _new_name(name: str) -> str | None:
    for old, new in _MOVED.items():
        if name == old or name.startswith(f"{old}."):
            return new + name[len(old) :]
    return None
