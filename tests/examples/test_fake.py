"""The thin clients of `ottla fake`, each run with its own toolchain."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parents[2] / "examples" / "fake"


def run(tool: str, *arguments: str, directory: Path) -> str:
    program = shutil.which(tool)
    if program is None:
        pytest.skip(f"{tool} is not installed")
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    ended = subprocess.run(
        [program, *arguments],
        cwd=directory,
        env={**os.environ, "PATH": path, "GOFLAGS": "-count=1"},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def test_javascript() -> None:
    assert "pass 2" in run("node", "--test", directory=FAKE)


def test_go() -> None:
    assert run("go", "test", "./...", directory=FAKE / "go").startswith("ok")


def test_java(tmp_path: Path) -> None:
    shutil.copy(FAKE / "OttlaFake.java", tmp_path)
    run("javac", "OttlaFake.java", directory=tmp_path)
    records, refused = run("java", "OttlaFake", directory=tmp_path).splitlines()
    assert '"value":"first"' in records.replace(" ", "")
    assert "Did you mean 'Produce'?" in refused
