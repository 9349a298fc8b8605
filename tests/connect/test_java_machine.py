"""The JVM inside a worker."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytest.importorskip("jpype", reason="Connectors in Java need JPype")

LEAVES_A_THREAD = """
import jpype
from ottla.connect.java import machine
from ottla.connect.java.jars import Libraries

machine.start(Libraries((), ()))
jpype.java.util.Timer("left behind", False)
print("Stopped cleanly.")
"""


def test_a_thread_that_a_connector_leaves_behind_does_not_keep_the_worker() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", LEAVES_A_THREAD], capture_output=True, text=True, timeout=60, check=False
    )
    assert (ended.returncode, ended.stdout) == (0, "Stopped cleanly.\n"), ended.stderr
