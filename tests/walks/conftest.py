"""The tutorials in `test_1_…` to `test_5_…` run in this order, each on a machine where nothing is prepared."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.walks.machine import ROOT, Machine

EXTRA = "connect"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.walks)


@pytest.fixture(scope="session")
def programs() -> Path:
    """The commands of an environment with the wheel of this tree. Its dependencies are installed once."""
    folder = ROOT / "build" / "walks"
    python = folder / "env" / "bin" / "python"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = json.dumps([project["dependencies"], project["optional-dependencies"]])
    stamp = folder / "dependencies"
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    shutil.rmtree(folder / "dist", ignore_errors=True)
    run([*pip, "wheel", "-q", "--no-deps", "-w", folder / "dist", ROOT])
    [wheel] = (folder / "dist").glob("ottla-*.whl")
    if not stamp.exists() or stamp.read_text() != wanted:
        shutil.rmtree(folder / "env", ignore_errors=True)
        run([sys.executable, "-m", "venv", "--without-pip", folder / "env"])
        run([*pip, "--python", python, "install", "-q", "--no-compile", f"{wheel}[{EXTRA}]"])
        stamp.write_text(wanted)
    else:
        run([*pip, "--python", python, "install", "-q", "--no-deps", "--force-reinstall", wheel])
    return python.parent


def run(command: list[object]) -> None:
    done = subprocess.run(
        list(map(str, command)), capture_output=True, text=True, check=False, cwd=ROOT,
        env={key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "OTTLA"))},
    )  # fmt: skip
    if done.returncode:
        pytest.fail(f"The wheel cannot be installed: {done.stderr.strip() or done.stdout.strip()}")


@pytest.fixture(scope="module")
def machine(programs: Path) -> Iterator[Machine]:
    with Machine(programs) as machine:
        yield machine
