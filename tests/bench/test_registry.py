"""`make bench-registry` prints its table."""

from __future__ import annotations

import subprocess
import sys


def test_a_quick_run_has_every_row() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.registry", "--quick"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for row in ("schema by id, 100 connections", "list of subjects", "register, 8 connections", "p99 ms"):
        assert row in done.stdout
