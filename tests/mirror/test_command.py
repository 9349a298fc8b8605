"""Promise: Ctrl-C ends a mirror, whether its clusters respond or not."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker

pytestmark = [pytest.mark.spark, pytest.mark.timeout(400)]


def ended(words: list[object], ready: str) -> str:
    """Send Ctrl-C once the command reports that it is ready, and return its output."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "mirror", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        said = ""
        assert process.stdout is not None
        for line in process.stdout:
            said += line
            if ready in line:
                break
        process.send_signal(signal.SIGINT)
        rest, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0, said + rest
    return said + rest


def test_ctrl_c_ends_a_mirror_and_a_link(tmp_path: Path) -> None:
    with Broker() as here, Broker() as there:
        here.create_topic("orders")
        file = tmp_path / "mm2.properties"
        file.write_text(
            f"clusters = here, there\nhere.bootstrap.servers = {here.bootstrap_servers}\n"
            f"there.bootstrap.servers = {there.bootstrap_servers}\nhere->there.enabled = true\ntopics = orders\n"
        )
        assert ended(["start", file], "RUNNING").endswith("Stopped cleanly.\n")
        assert ended(["link", "start", file], "RUNNING").endswith("Stopped cleanly.\n")


def test_ctrl_c_ends_a_mirror_whose_clusters_are_gone(tmp_path: Path) -> None:
    file = tmp_path / "mm2.properties"
    file.write_text(
        "clusters = a, b\na.bootstrap.servers = 127.0.0.1:1\nb.bootstrap.servers = 127.0.0.1:1\n"
        "a->b.enabled = true\n"
    )
    said = ended(["start", file], "STARTING")
    assert "Cannot reach a broker at 127.0.0.1:1" in said
    assert said.endswith("Stopped cleanly.\n")
