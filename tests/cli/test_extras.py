"""A part whose packages are missing says what to install, before anything starts."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.errors import missing_package

WITHOUT = """
import sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {missing!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Without())
"""


def run_without(folder: Path, missing: list[str], *words: str) -> subprocess.CompletedProcess[str]:
    """Run a command as if packages were not installed."""
    (folder / "sitecustomize.py").write_text(WITHOUT.format(missing=missing))
    return subprocess.run(
        [sys.executable, "-m", "ottla", *words],
        env={**os.environ, "PYTHONPATH": str(folder)},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize(
    ("flag", "missing", "what"),
    [
        ("--registry", "httptools", "The schema registry"),
        ("--registry", "jsonschema_rs", "The schema registry"),
        ("--rest", "aiokafka", "The REST proxy"),
        ("--console", "jinja2", "The console"),
        ("--connect", "pyspark", "Connect"),
    ],
)
def test_a_flag_of_start_names_its_extra(tmp_path: Path, flag: str, missing: str, what: str) -> None:
    done = run_without(tmp_path, [missing], "start", "--listen", "127.0.0.1:0", flag)
    extra = flag.removeprefix("--")
    assert (
        done.stderr == f"Error: {what} needs packages that are not installed: pip install 'ottla[{extra}]'.\n"
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert not (tmp_path / "ottla-data").exists()


def test_a_package_missed_later_is_no_bug() -> None:
    said = missing_package(ModuleNotFoundError("No module named 'pyspark.sql'", name="pyspark.sql"))
    assert said == "This needs the package pyspark.sql, which is not installed: pip install 'ottla[spark]'."
    assert (
        missing_package(ModuleNotFoundError("No module named 'ottla.nothing'", name="ottla.nothing")) is None
    )
