"""The commands on the case study pages run as printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.testing import Broker

from .conftest import EXAMPLES


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("movieflix", r'"user":"ada","next_show":"[^"]+"'),
        ("gettaxi", r"\|ride-1 "),
        ("mysocialmedia", r'"post":"post-\d+","score":\d+'),
    ],
)
def test_the_commands_run_as_they_are_printed(
    fresh_ottla_broker: Broker, tmp_path: Path, name: str, shown: str
) -> None:
    pytest.importorskip("pyspark")
    [commands] = re.findall(r"```sh\n(.*?)```", (EXAMPLES / name / "README.md").read_text(), re.DOTALL)
    (tmp_path / "examples").symlink_to(EXAMPLES)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OTTLA_BOOTSTRAP_SERVER": fresh_ottla_broker.bootstrap_servers,
        "OTTLA_STATE_DIR": str(tmp_path / "state"),
        "SPARK_MASTER": "local[2]",
    }
    done = subprocess.run(
        ["bash", "-euc", commands], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=800
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Pipeline '{name}' is finished." in done.stdout
    assert re.search(rf"^{name}/\w+: [\d,]+ rows processed$", done.stdout, re.MULTILINE)
    assert re.search(shown, done.stdout), done.stdout
