"""All modules of this package that list CASES."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tests.sql.cases.case import Case


def all_cases() -> list[Case]:
    package = __name__.rpartition(".")[0]
    found: list[Case] = []
    modules = pkgutil.walk_packages([str(Path(__file__).parent)], f"{package}.")
    for each in sorted(modules, key=lambda each: each.name):
        short = each.name.rpartition(".")[2]
        if each.name == __name__ or short.startswith("test_"):
            continue
        found += getattr(importlib.import_module(each.name), "CASES", [])
    return found
