"""Promise: readers can follow docs/tour.md and the first session of docs/tools.md as printed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.shell import ROOT, follow, laptop, sessions


@pytest.mark.cluster
@pytest.mark.timeout(300)
def test_the_tour_goes_as_it_is_printed(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="ZooKeeper's jars come with PySpark")
    steps = sessions(ROOT / "docs" / "tour.md")
    assert len(steps) > 30
    with laptop(tmp_path) as shell:
        follow(shell, steps)


def test_the_first_session_with_the_tools_goes_as_it_is_printed(tmp_path: Path) -> None:
    with laptop(tmp_path) as shell:
        follow(shell, sessions(ROOT / "docs" / "tools.md"))
