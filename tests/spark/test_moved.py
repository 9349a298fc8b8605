"""Promise: programs that import the packages' old names in `ottla.spark` keep working."""

from __future__ import annotations

import importlib

import pytest

pytest.importorskip("pyspark")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("ottla.spark.connect", "ottla.connect"),
        ("ottla.spark.connect.simple", "ottla.connect.simple"),
        ("ottla.spark.connect.transforms", "ottla.connect.transforms"),
        ("ottla.spark.sql", "ottla.sql"),
        ("ottla.spark.sql.client", "ottla.sql.client"),
        ("ottla.spark.mirror.policy", "ottla.mirror.policy"),
        ("ottla.spark.kernels", "ottla.records.kernels"),
    ],
)
def test_an_old_name_is_the_same_module(old: str, new: str) -> None:
    module = importlib.import_module(old)
    assert module is importlib.import_module(new)
    assert module.__name__ == new
    assert module.__spec__ is not None
    assert module.__spec__.name == new


def test_what_never_existed_is_still_missing() -> None:
    with pytest.raises(ModuleNotFoundError, match="nothing"):
        importlib.import_module("ottla.spark.connect.nothing")
