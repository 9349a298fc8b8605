"""A machine of its own: namespaces for processes, network, mounts and host name, in which nothing has run yet.

Every machine has the ports 2181 and 9092 free and an empty /tmp and home. Its PATH holds the installed wheel and the
system, and no other environment of Python. Everything that runs there ends with it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import shlex
import shutil
import signal
import subprocess
import termios
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest

ROOT = Path(__file__).parents[2]
SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
HOME = "/tmp/newcomer"
_NAMESPACES = ("--mount", "--uts", "--ipc", "--net", "--pid")
# As the first process it adopts and reaps the servers in the background.
_INIT = f"""
mount -t tmpfs tmpfs /tmp && ip link set lo up && hostname localhost && mkdir {HOME} && cp -r "$CONFIG" {HOME}/config &&
echo ready && while :; do sleep 1000 & wait; done
"""


class Machine:
    """`machine("kafka-topics …")` returns the output; `machine.said` is the standard error."""

    def __init__(self, programs: Path) -> None:
        missing = [
            name for name in ("unshare", "nsenter", "ip", "mount", "script") if shutil.which(name) is None
        ]
        if missing:
            pytest.skip(f"A machine of its own needs {', '.join(missing)}")
        if str(programs).startswith("/tmp/"):
            pytest.skip("The repository is in /tmp, which a machine of its own replaces")
        self._environment = {
            "HOME": HOME, "PATH": f"{programs}:{SYSTEM_PATH}", "LANG": "C.UTF-8", "TERM": "xterm",
        }  # fmt: skip
        self.terminals: list[Terminal] = []
        self.said = ""

    def __enter__(self) -> Self:
        self._unshare = subprocess.Popen(
            ["unshare", *_NAMESPACES, "--fork", "--mount-proc", "--kill-child", "bash", "-c", _INIT],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "CONFIG": str(ROOT / "config")},
            text=True,
        )
        assert self._unshare.stdout is not None
        if self._unshare.stdout.readline() != "ready\n":
            self._unshare.kill()
            pytest.skip(f"A machine of its own needs root and namespaces: {self._unshare.communicate()[1]}")
        pid = self._unshare.pid
        self._init = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._unshare.kill()
        self._unshare.communicate()
        for terminal in self.terminals:
            terminal.close()

    def path(self, path: str) -> Path:
        """Return the path by which this process reaches a file of the machine."""
        return Path(f"/proc/{self._init}/root{path if path.startswith('/') else f'{HOME}/{path}'}")

    def _enter(self, line: str) -> list[str]:
        into = ["nsenter", "--target", str(self._init), *_NAMESPACES, f"--wd=/proc/{self._init}/root{HOME}"]
        # Not among the arguments of the shell, where `pgrep -f` would find it.
        return [*into, "env", "-i", *(f"{key}={value}" for key, value in self._environment.items()),
                f"LINE={line}", "bash", "-c", 'cd; eval "$LINE"']  # fmt: skip

    def __call__(self, line: str, *, code: int = 0, stdin: str = "", seconds: float = 120) -> list[str]:
        try:
            done = subprocess.run(
                self._enter(line), input=stdin, capture_output=True, text=True, timeout=seconds, check=False
            )
        except subprocess.TimeoutExpired as late:
            pytest.fail(f"$ {line}\ndid not end. It printed {late.stdout!r} and said {late.stderr!r}.")
        self.said = done.stderr
        assert done.returncode == code, f"$ {line}\n{done.stdout}\n{done.stderr}"
        return done.stdout.splitlines()

    def repeat(self, line: str, looks_right: Callable[[list[str]], bool], seconds: float = 90) -> list[str]:
        """Run a command again until the output looks right, as a person would."""
        deadline = time.monotonic() + seconds
        while not looks_right(printed := self(f"{line} || true")):
            assert time.monotonic() < deadline, f"$ {line}\n{printed}\n{self.said}"
            time.sleep(0.2)
        return printed

    def terminal(self, line: str, until: str = "") -> Terminal:
        """Type a command in another terminal, and wait until it prints `until`."""
        # The inner terminal belongs to the machine, so that Ctrl-C reaches the command and nothing before it.
        command = self._enter(f"exec script --quiet --flush --return --command {shlex.quote(line)} /dev/null")
        terminal = Terminal(line, command)
        self.terminals.append(terminal)
        if until:
            terminal.wait_for(until)
        return terminal


class Terminal:
    """A command in a terminal, with a person before it."""

    def __init__(self, line: str, command: list[str]) -> None:
        self.line = line
        self._master, slave = pty.openpty()
        self._process = subprocess.Popen(
            command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self._read = b""
        self._reader = threading.Thread(target=self._follow, daemon=True)
        self._reader.start()

    def _follow(self) -> None:
        with contextlib.suppress(OSError):  # the other end is closed
            while data := os.read(self._master, 65536):
                self._read += data

    @property
    def text(self) -> str:
        return self._read.decode(errors="replace").replace("\r", "")

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    def wait_for(self, pattern: str, seconds: float = 90) -> str:
        deadline = time.monotonic() + seconds
        while not re.search(pattern, self.text, re.MULTILINE):
            assert time.monotonic() < deadline, f"$ {self.line}\nno {pattern!r} in\n{self.text}"
            assert self._process.poll() is None or self._reader.is_alive(), f"$ {self.line}\n{self.text}"
            time.sleep(0.05)
        return self.text

    def type(self, *lines: str) -> None:
        for line in lines:
            os.write(self._master, f"{line}\n".encode())

    def ctrl_c(self) -> str:
        return self._end(b"\x03").replace("^C", "")

    def ctrl_d(self) -> str:
        return self._end(b"\x04")

    def _end(self, key: bytes) -> str:
        """Press the key, and return everything printed until the command has ended."""
        os.write(self._master, key)
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            pytest.fail(f"$ {self.line}\ndid not end after {key!r}. It printed\n{self.text}")
        self._reader.join(10)
        return self.text

    def close(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._reader.join(10)
        os.close(self._master)
