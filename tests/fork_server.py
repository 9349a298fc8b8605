"""Run the installed commands without paying for their imports each time.

A server process imports the command line once and forks for each call. Each command still runs in its own process, with
its own pipes, environment, working directory and exit code, but starts within milliseconds. Forking is safe because the
server starts no threads, neither Python's nor librdkafka's.

Tests about starting a command (speed, imports) run it with `subprocess`.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import json
import os
import pkgutil
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from importlib.metadata import EntryPoint, distribution
from pathlib import Path

_PRELOADED = (
    "ottla.cli",
    "ottla.client",
    "ottla.protocol",
    "confluent_kafka",
    "kazoo.client",
    "rich.console",
    "rich.table",
)


def run_forked(
    command: str,
    *args: object,
    stdin: bytes = b"",
    env: Mapping[str, str] | None = None,
    cwd: str | Path | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[bytes]:
    """Run an installed command like `subprocess.run([command, *args], input=stdin, capture_output=True, …)`."""
    argv = [command, *map(str, args)]
    request = {"argv": argv, "env": dict(os.environ if env is None else env), "cwd": str(cwd or os.getcwd())}
    out, its_out = os.pipe()
    err, its_err = os.pipe()
    status, its_status = os.pipe()
    with tempfile.TemporaryFile() as given:
        given.write(stdin)
        given.seek(0)
        _server().send(request, [given.fileno(), its_out, its_err, its_status])
    for theirs in (its_out, its_err, its_status):
        os.close(theirs)
    read: dict[int, bytearray] = {out: bytearray(), err: bytearray(), status: bytearray()}
    try:
        read[status] += os.read(status, 64)  # its process id; the timeout counts from here
        if not _read_all(read, time.monotonic() + timeout):
            os.kill(int(read[status].split()[0]), signal.SIGKILL)
            raise subprocess.TimeoutExpired(argv, timeout, bytes(read[out]), bytes(read[err]))
    finally:
        for ours in read:
            os.close(ours)
    _pid, waited = read[status].split()
    return subprocess.CompletedProcess(
        argv, os.waitstatus_to_exitcode(int(waited)), bytes(read[out]), bytes(read[err])
    )


def _read_all(read: dict[int, bytearray], deadline: float) -> bool:
    """Read until every pipe has ended. Return False on a timeout."""
    with selectors.DefaultSelector() as selector:
        for each in read:
            selector.register(each, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, deadline - time.monotonic()))
            if not ready:
                return False
            for key, _ in ready:
                chunk = os.read(key.fd, 65536)
                read[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
    return True


class _Server:
    """The client's side of the server process, which ends when the socket closes. Owner: one test process."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-P", __file__, str(theirs.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=None,
                pass_fds=[theirs.fileno()],
            )

    def send(self, request: Mapping[str, object], descriptors: list[int]) -> None:
        # A packet may be too small for an environment, so the request is passed as a file.
        with tempfile.TemporaryFile() as file:
            file.write(json.dumps(request).encode())
            file.seek(0)
            socket.send_fds(self._socket, [b"."], [file.fileno(), *descriptors])


_starting = threading.Lock()


def _server() -> _Server:
    """Return the only server. Threads may call this concurrently."""
    with _starting:
        return _only_server()


@functools.cache
def _only_server() -> _Server:
    return _Server()


# -- in the server -----------------------------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> None:
    scripts = _preload()
    assert threading.active_count() == 1, "a process with threads must not be forked"
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the tests, which close the socket
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody reaps the waiting processes
    while True:
        received, descriptors, _, _ = socket.recv_fds(requests, 16, 8)
        if not received:
            return
        if os.fork() == 0:
            break
        for each in descriptors:
            os.close(each)
    requests.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _run(scripts, *descriptors)


def _preload() -> dict[str, EntryPoint]:
    """Import the modules that commands need, and return the commands by name."""
    for name in _PRELOADED:
        package = importlib.import_module(name)
        if name.startswith("ottla."):
            for found in pkgutil.walk_packages(package.__path__, f"{name}."):
                if not found.name.endswith("__main__"):
                    importlib.import_module(found.name)
    installed = distribution("ottla").entry_points.select(group="console_scripts")
    scripts = {script.name: script for script in installed}
    gc.freeze()  # keeps shared pages shared
    return scripts


def _run(
    scripts: Mapping[str, EntryPoint],
    request: int,
    stdin: int,
    stdout: int,
    stderr: int,
    status: int,
) -> None:
    """Fork once more; this process waits for the child and reports its exit status."""
    pid = os.fork()
    if pid != 0:
        for each in (stdin, stdout, stderr):
            os.close(each)
        os.write(status, f"{pid} ".encode())
        ended = os.waitpid(pid, 0)[1]
        with contextlib.suppress(BrokenPipeError):  # the caller has timed out
            os.write(status, str(ended).encode())
        os._exit(0)
    os.close(status)
    for number, each in enumerate((stdin, stdout, stderr)):
        os.dup2(each, number)
        os.close(each)
    with open(request, "rb") as file:
        asked = json.load(file)
    os.environ.clear()
    os.environ.update(asked["env"])
    os.chdir(asked["cwd"])
    sys.argv = asked["argv"]
    scripts[sys.argv[0]].load()()


if __name__ == "__main__":
    _serve(socket.socket(fileno=int(sys.argv[1])))
