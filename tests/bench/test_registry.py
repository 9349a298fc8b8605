"""`make bench-registry` prints its tables."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize(
    ("bench", "rows"),
    [
        (
            "registry",
            ("schema by id, 100 connections", "list of subjects", "register, 8 connections", "p99 ms"),
        ),
        ("rest", ("requests of 100 records, records a second", "open streams that saw a record")),
    ],
)
def test_a_quick_run_has_every_row(bench: str, rows: tuple[str, ...]) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{bench}", "--quick"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for row in rows:
        assert row in done.stdout
