"""`python -m bench.controller` prints its table."""

from __future__ import annotations

import subprocess
import sys


def test_a_quick_run_has_every_row() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.controller", "--quick"], capture_output=True, text=True, timeout=200
    )
    assert done.returncode == 0, done.stderr
    for row in (
        "read the whole image",
        "elect leaders",
        "answer Metadata of all topics",
        "replace a controller",
    ):
        assert row in done.stdout
