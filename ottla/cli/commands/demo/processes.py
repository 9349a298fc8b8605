"""Child processes that end with their command."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Self

from ottla.python_process import python_command, python_environment

_TIME_TO_END = 30.0
_LOOK_EVERY = 0.05


class Child:
    """A Python process in its own session. Ctrl-C reaches only the command, which then ends the child."""

    def __init__(self, name: str, output: Path, arguments: tuple[str, ...]) -> None:
        self.name = name
        self._output = output
        with output.open("w") as out:
            self._process = subprocess.Popen(
                python_command(*arguments),
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env={**python_environment(), "PYTHONUNBUFFERED": "1"},
                start_new_session=True,
            )

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def output(self) -> str:
        return self._output.read_text(errors="replace")

    def last_words(self) -> str:
        lines = [line for line in self.output().splitlines() if line.strip()]
        return lines[-1].removeprefix("Error: ") if lines else "it did not say why."

    def end(self) -> None:
        deadline = time.monotonic() + _TIME_TO_END
        self._process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_TIME_TO_END)
        # Java notices that its Python has ended, and ends a moment later.
        while self._signal_group(0) and time.monotonic() < deadline:
            time.sleep(_LOOK_EVERY)
        self._signal_group(signal.SIGKILL)
        self._process.wait()

    def _signal_group(self, number: int) -> bool:
        try:
            os.killpg(self._process.pid, number)
        except ProcessLookupError:
            return False
        return True


class Children:
    """Children end in reverse order of their start."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._started: list[Child] = []

    def start(self, name: str, *arguments: str) -> Child:
        child = Child(name, self._directory / f"{name}.log", arguments)
        self._started.append(child)
        return child

    def ended(self) -> Child | None:
        return next((child for child in self._started if not child.is_running), None)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for child in reversed(self._started):
            child.end()
