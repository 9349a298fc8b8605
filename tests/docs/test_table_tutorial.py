"""A reader can follow docs/tutorials/topic-as-table.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.docs.terminals import blocks, commands, laptop_with_servers, started

PAGE = "tutorials/topic-as-table.md"


@pytest.mark.spark
@pytest.mark.timeout(900)
def test_the_tutorial_runs_as_printed(tmp_path: Path) -> None:
    for package in ("pyspark", "pyiceberg", "duckdb"):
        pytest.importorskip(package)
    for text in blocks(PAGE, "python"):
        (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
    server, *sessions = blocks(PAGE, "bash")
    expected = [text.splitlines() for text in blocks(PAGE, "text")]
    with laptop_with_servers(tmp_path) as shell, started(shell, server.strip()):
        printed = [[shell(line) for line in commands(session)] for session in sessions]
    _, made, read, _, live = printed
    assert made[0] == ["orders: 3 records; 1 dead letter" + made[0][0][made[0][0].index(" (") :]]
    assert made[1][1].split()[:3] == ["orders", "iceberg", "default.orders"]
    assert [read[0], live[0]] == expected
