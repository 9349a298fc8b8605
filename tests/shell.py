"""A shell with the installed commands, and the page sessions typed into it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ottla.cli.kafka.servers.start_stop import processes
from ottla.testing.ports import ReservedPorts

ROOT = Path(__file__).parents[1]
SCRIPTS = Path(sys.executable).parent


class Shell:
    """`shell("kafka-topics --list …")` returns the output; `shell.said` is the standard error.

    `instead` maps words of the page to words for this machine: free ports, directories of the test. A command may take
    `seconds`.
    """

    def __init__(self, directory: Path, instead: Mapping[str, str], seconds: float = 90) -> None:
        self.directory = directory
        self.seconds = seconds
        self.instead = dict(instead)
        self.said = ""
        self.environment = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}"}
        for unwanted in ("OTTLA_DEBUG", "OTTLA_BOOTSTRAP_SERVER"):
            self.environment.pop(unwanted, None)

    def line(self, line: str) -> str:
        return _replaced(line, self.instead)

    def shown(self, text: str) -> str:
        """Translate the output back to the page's words."""
        return _replaced(text, {there: here for here, there in self.instead.items()})

    def __call__(self, line: str, *, code: int = 0, stdin: str = "") -> list[str]:
        done = self.run(line, stdin=stdin, stderr=subprocess.PIPE)
        self.said = done.stderr
        assert done.returncode == code, (line, done.stdout, done.stderr)
        return done.stdout.splitlines()

    def run(self, line: str, *, stdin: str = "", stderr: int) -> subprocess.CompletedProcess[str]:
        # The line is not among the shell's own arguments, where `pgrep -f` would find it.
        try:
            return subprocess.run(
                ["bash", "-c", 'eval "$LINE"'], input=stdin, stdout=subprocess.PIPE, stderr=stderr, text=True,
                errors="replace", timeout=self.seconds, cwd=self.directory,
                env={**self.environment, "LINE": self.line(line)},
            )  # fmt: skip
        except subprocess.TimeoutExpired as late:
            pytest.fail(
                f"$ {self.line(line)}\ndid not end. It printed {late.stdout!r} and said {late.stderr!r}."
            )

    def start(self, line: str, output: Path) -> subprocess.Popen[bytes]:
        """Start a command in the background, with its output in a file."""
        with open(output, "wb") as out, open(output.with_suffix(".err"), "wb") as err:
            return subprocess.Popen(
                ["bash", "-c", f"exec {self.line(line)}"], stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                cwd=self.directory, env=self.environment,
            )  # fmt: skip


def _replaced(text: str, instead: Mapping[str, str]) -> str:
    """Replace all words in one pass, so that nothing is replaced twice; numbers match only as a whole."""
    if not instead:
        return text
    words = "|".join(re.escape(word) for word in sorted(instead, key=len, reverse=True))
    return re.sub(rf"(?<![0-9])(?:{words})(?![0-9])", lambda found: instead[found[0]], text)


def need_installed_commands() -> None:
    if shutil.which("kafka-topics", path=str(SCRIPTS)) is None:
        pytest.skip("Ottla is not installed beside this Python, so there are no commands to run")


@contextlib.contextmanager
def laptop(directory: Path) -> Iterator[Shell]:
    """A shell in an empty directory with a `config` like the repository's, for the test's own servers.

    Kills every process still running from there at the end. The files have unique names, so that a session that kills a
    broker by its file name hits no other.
    """
    need_installed_commands()
    reserved = ReservedPorts(4)
    ports = reserved.numbers
    instead = {name: str(port) for name, port in zip(("9092", "9093", "9094", "2181"), ports, strict=True)}
    instead["/tmp/"] = f"{directory}/"
    (directory / "config").mkdir()
    for number, name in enumerate(("server0", "server1", "server2", "server", "zookeeper")):
        mine = f"{name}-{ports[number % 4]}.properties"
        instead[f"{name}.properties"] = mine
        text = (ROOT / "config" / f"{name}.properties").read_text()
        (directory / "config" / mine).write_text(_replaced(text, instead))
    try:
        yield Shell(directory, instead)
    finally:
        for process, _, where in list(processes()):
            if where == directory:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)


def wait_until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# -- pages --------------------------------------------------------------------------------------------------


@dataclass
class Step:
    """A `$ line` of a page, the following `>` lines to type, and the expected output."""

    line: str
    typed: list[str] = field(default_factory=list)
    printed: list[str] = field(default_factory=list)


# Commands that a reader would repeat until the output matches.
_LOOKS = re.compile(
    r" --(describe|list|verify)\b|(kafka|zookeeper)-server-start|(zookeeper-shell|zkCli.sh) .* (ls|get) "
)


def sessions(page: Path) -> list[Step]:
    """Return the ```console blocks of a page in order."""
    steps: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
        for line in re.sub(r"\\\n\s*", "", block).splitlines():
            if line.startswith("$ "):
                steps.append(Step(line[2:]))
            elif line.startswith(">"):
                steps[-1].typed.append(line[1:])
            elif line.strip():
                steps[-1].printed.append(line)
    return steps


def follow(shell: Shell, steps: list[Step], seconds: float = 60) -> None:
    """Run the steps and compare the output. `…` matches anything; alone on a line it matches any lines."""
    for step in steps:
        deadline = time.monotonic() + seconds
        while True:
            stdin = "".join(f"{line}\n" for line in step.typed)
            done = shell.run(step.line, stdin=stdin, stderr=subprocess.STDOUT)
            printed = shell.shown(done.stdout)
            if done.returncode == 0 and _looks_like(printed, step.printed):
                break
            again = _LOOKS.search(step.line) and time.monotonic() < deadline
            assert again, f"$ {step.line}\n{printed}\nThe page shows:\n" + "\n".join(step.printed)
            time.sleep(0.2)


def _looks_like(printed: str, shown: list[str]) -> bool:
    """Compare with collapsed blanks, because column widths depend on the machine."""
    expected = ""
    for line in shown:
        if line.strip() == "…":
            expected += r"(?:.*\n)*?"
        else:
            expected += ".*?".join(map(re.escape, " ".join(line.split()).split("…"))) + r"\n"
    lines = [" ".join(line.split()) for line in printed.splitlines() if line.strip()]
    return re.fullmatch(expected, "".join(f"{line}\n" for line in lines)) is not None
