"""Readers can follow docs/tutorials/three-brokers.md and the first session of docs/reference/tools.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import ROOT, follow, laptop, sessions


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_tour_goes_as_it_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    steps = sessions(ROOT / "docs" / "tutorials" / "three-brokers.md")
    assert len(steps) > 30
    with laptop(tmp_path) as shell:
        follow(shell, steps)


@pytest.mark.cluster
def test_the_first_session_with_the_tools_goes_as_it_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    with laptop(tmp_path) as shell:
        follow(shell, sessions(ROOT / "docs" / "reference" / "tools.md"))
