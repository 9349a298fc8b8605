"""The code on the page about writing connectors, and in the template, runs."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEMPLATE = ROOT / "examples" / "connector-template"


def test_the_code_on_the_page_runs() -> None:
    page = (ROOT / "docs" / "how-to" / "write-a-connector.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(blocks) >= 4
    exec("\n".join(blocks), {"__name__": "page"})


def test_the_tests_of_the_template_pass_in_a_package_of_its_own(tmp_path: Path) -> None:
    package = tmp_path / "package"
    shutil.copytree(TEMPLATE, package)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "pytest", "-q", "-n0", "-p", "no:cacheprovider", "."],
        cwd=package,
        env={**os.environ, "PYTHONPATH": f"{package}{os.pathsep}{ROOT}"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_entry_points_of_the_template_lead_to_its_classes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = tomllib.loads((TEMPLATE / "pyproject.toml").read_text())["project"]["entry-points"][
        "ottla.connectors"
    ]
    info = tmp_path / "ottla_sqlite_connector-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ottla-sqlite-connector\nVersion: 0.1.0\n")
    lines = "".join(f"{name} = {target}\n" for name, target in named.items())
    (info / "entry_points.txt").write_text(f"[ottla.connectors]\n{lines}")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.syspath_prepend(str(TEMPLATE))
    found = importlib.metadata.entry_points(group="ottla.connectors")
    assert found["com.example.SqliteSource"].load().__name__ == "SqliteSource"
    assert found["com.example.SqliteSink"].load().delivery.startswith("exactly once")
