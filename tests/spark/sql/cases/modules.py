"""All modules of this package that list CASES."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path

from tests.spark.sql.cases.case import Case


def all_cases() -> list[Case]:
    package = __name__.rpartition(".")[0]
    found: list[Case] = []
    for each in sorted(pkgutil.iter_modules([str(Path(__file__).parent)]), key=lambda each: each.name):
        if each.name == Path(__file__).stem or each.name.startswith("test_"):
            continue
        module = importlib.import_module(f"{package}.{each.name}")
        found += getattr(module, "CASES", [])
    return found
