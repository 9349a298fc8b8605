"""The wheel: the same bytes from the same sources, complete metadata, and extras that exist where texts name them."""

from __future__ import annotations

import email
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import ottla
from ottla.cli import errors

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
_PARTS = (
    "LICENSE",
    "README.md",
    "config",
    "examples",
    "ottla",
    "pyproject.toml",
    "pyspark_ottla",
    "pyspark_ottla_table",
)


def build(directory: Path) -> Path:
    """Build the wheel from a copy of the sources, with times of its own."""
    sources = directory / "sources"
    for part in _PARTS:
        if (ROOT / part).is_dir():
            shutil.copytree(ROOT / part, sources / part, copy_function=shutil.copy)
        else:
            shutil.copy(ROOT / part, sources / part)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "-w", str(directory), str(sources)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "315532800"}
    subprocess.run(command, check=True, env=environment, cwd=directory)
    [wheel] = directory.glob("*.whl")
    return wheel


@pytest.mark.deploy
@pytest.mark.timeout(600)
def test_the_wheel_has_the_same_bytes_each_time_and_says_what_it_is(tmp_path: Path) -> None:
    wheels = []
    for name in ("one", "two"):
        (tmp_path / name / "sources").mkdir(parents=True)
        wheels.append(build(tmp_path / name))
    assert wheels[0].name == wheels[1].name
    assert wheels[0].read_bytes() == wheels[1].read_bytes()
    with zipfile.ZipFile(wheels[0]) as archive:
        names = archive.namelist()
        [metadata] = [each for each in names if each.endswith(".dist-info/METADATA")]
        text = archive.read(metadata).decode()
    headers = email.message_from_string(text)
    assert headers["Version"] == ottla.__version__ == PROJECT["version"]
    assert headers["License-Expression"] == "Apache-2.0"
    assert headers["Requires-Python"] == ">=3.11"
    assert headers["Description-Content-Type"] == "text/markdown"
    assert set(headers.get_all("Provides-Extra") or ()) == set(PROJECT["optional-dependencies"])
    assert "ottla/py.typed" in names
    assert not [each for each in names if "__pycache__" in each or each.startswith("tests/")]


def test_texts_name_extras_that_exist() -> None:
    known = set(PROJECT["optional-dependencies"])
    places = [
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("ottla/**/*.py"),
        ROOT / "README.md",
        ROOT / "CHANGELOG.md",
    ]
    for place in places:
        for extras in re.findall(r"pip install '?\"?ottla\[([^\]{]+)\]", place.read_text()):
            assert set(extras.split(",")) <= known, (place, extras)
    assert set(errors._EXTRAS) <= known


def test_every_extra_for_users_is_documented() -> None:
    text = (ROOT / "docs" / "how-to" / "install.md").read_text()
    for extra in set(PROJECT["optional-dependencies"]) - {"clients", "dev", "http"}:
        assert f"'ottla[{extra}]'" in text, extra


@pytest.mark.deploy
@pytest.mark.timeout(900)
def test_a_release_lists_its_packages() -> None:
    if shutil.which("make") is None:
        pytest.skip("make is not installed")
    subprocess.run(["sh", ROOT / "scripts" / "release.sh", sys.executable], check=True)
    dist = ROOT / "dist"
    for variant in ("broker", "full"):
        bill = json.loads((dist / f"ottla-{variant}.cdx.json").read_text())
        assert bill["bomFormat"] == "CycloneDX"
        locked = (ROOT / "deploy" / "container" / f"requirements-{variant}.txt").read_text()
        expected = {line.partition("==")[0].lower() for line in locked.splitlines() if "==" in line}
        assert {each["name"].lower() for each in bill["components"]} == expected
        assert bill["metadata"]["component"]["version"] == ottla.__version__
    sums = (dist / "SHA256SUMS").read_text()
    assert sums.count("\n") == 3
