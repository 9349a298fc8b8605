"""`python -m bench.metrics` prints its table."""

from __future__ import annotations

import subprocess
import sys


def test_a_quick_run_has_every_row() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.metrics", "--quick"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for row in ("pipelined, µs of CPU", "round trip, µs of CPU", "one scrape, ms of CPU", "on ÷ off"):
        assert row in done.stdout
