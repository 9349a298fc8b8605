"""The connection between a running task and the driver: JSON lines over TCP.

The task reports its state, its failure and its topics. The driver sends stop requests. A task stops if its connection
breaks, because it then runs unsupervised. The driver takes a broken connection as a report that the task is lost.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import logging
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from ottla.connect.runtime.tasks.task_spec import ControlAddress, TaskSpec

_log = logging.getLogger(__name__)

_HELLO_SECONDS = 10.0
#: Grace period for a task without a driver, before its process is killed.
_LOST_SECONDS = 10.0
#: Maximum wait for the last reports of ended tasks. They arrive promptly unless a task hangs.
_LAST_REPORT_SECONDS = 2.0

Report = dict[str, Any]


class _Run(NamedTuple):
    on_report: Callable[[int, Report], None]
    connections: dict[int, socket.socket]
    readers: list[threading.Thread]


class ControlServer:
    """The driver's side. Invariant: a stopping run also stops tasks that connect later."""

    def __init__(self, host: str, bind: str | None = None) -> None:
        self._listener = socket.create_server((bind if bind is not None else host, 0))
        self.address = ControlAddress(host, self._listener.getsockname()[1], secrets.token_hex(16))
        self._lock = threading.Lock()
        self._runs: dict[str, _Run] = {}
        self._stopping: set[str] = set()
        threading.Thread(target=self._accept, name="connect-control", daemon=True).start()

    def close(self) -> None:
        # A thread blocked in accept() would keep the socket open.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        with self._lock:
            runs = list(self._runs)
        for run in runs:
            self.end(run)

    def begin(self, run: str, on_report: Callable[[int, Report], None]) -> None:
        with self._lock:
            self._runs[run] = _Run(on_report, {}, [])

    def stop(self, run: str) -> None:
        with self._lock:
            if run not in self._runs:
                return
            self._stopping.add(run)
            for connection in self._runs[run].connections.values():
                _send(connection, {"do": "stop"})

    def end(self, run: str) -> None:
        """End the supervision of a run. Remaining tasks stop by themselves.

        First, wait for the last reports of ended tasks, above all their failures.
        """
        with self._lock:
            readers = list(self._runs[run].readers) if run in self._runs else []
        deadline = time.monotonic() + _LAST_REPORT_SECONDS
        for reader in readers:
            reader.join(max(0.0, deadline - time.monotonic()))
        with self._lock:
            ended = self._runs.pop(run, None)
            self._stopping.discard(run)
        for connection in [] if ended is None else ended.connections.values():
            _hang_up(connection)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(connection,), daemon=True).start()

    def _serve(self, connection: socket.socket) -> None:
        with connection, contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            connection.settimeout(_HELLO_SECONDS)
            with connection.makefile("r", encoding="utf-8", newline="\n") as lines:
                hello = json.loads(lines.readline(10_000))
                if not hmac.compare_digest(str(hello["token"]), self.address.token):
                    return
                connection.settimeout(None)
                run, task = str(hello["run"]), int(hello["task"])
                with self._lock:
                    found = self._runs.get(run)
                    if found is None:
                        return
                    found.connections[task] = connection
                    found.readers.append(threading.current_thread())
                    _send(connection, {"do": "stop" if run in self._stopping else "go"})
                try:
                    for line in lines:
                        if run in self._runs:
                            self._deliver(found, task, json.loads(line))
                finally:
                    with self._lock:
                        is_lost = run in self._runs and run not in self._stopping
                    if is_lost and found.connections.get(task) is connection:
                        self._deliver(found, task, {"lost": True})

    def _deliver(self, run: _Run, task: int, report: Report) -> None:
        try:
            run.on_report(task, report)
        except Exception:
            _log.exception("A report of task %d could not be handled: %s", task, report)


class TaskControl:
    """The task's side. `stopping` is set when the driver requests it or disappears."""

    def __init__(self, spec: TaskSpec, *, ends_process: bool = False) -> None:
        """With `ends_process`, the process is killed if the task does not end after losing the driver."""
        self.stopping = threading.Event()
        self.lost = False
        self._ended = threading.Event()
        self._ends_process = ends_process
        self._connection = socket.create_connection((spec.control.host, spec.control.port), _HELLO_SECONDS)
        self._connection.settimeout(None)
        self._lock = threading.Lock()
        self._heard = threading.Event()
        self.report(token=spec.control.token, run=spec.run, task=spec.task)
        threading.Thread(target=self._listen, name=f"control-{spec.label}", daemon=True).start()
        # From here on, the driver waits for this task's reports.
        self._heard.wait(_HELLO_SECONDS)

    def report(self, **fields: Any) -> None:
        with self._lock:
            _send(self._connection, fields)

    def close(self) -> None:
        self._ended.set()
        _hang_up(self._connection)

    def _listen(self) -> None:
        with (
            contextlib.suppress(OSError, ValueError),
            self._connection.makefile("r", encoding="utf-8", newline="\n") as lines,
        ):
            for line in lines:
                if json.loads(line).get("do") == "stop":
                    self.stopping.set()
                self._heard.set()
        if self._ended.is_set():
            return
        self.lost = True
        self.stopping.set()
        self._heard.set()
        if self._ends_process and not self._ended.wait(_LOST_SECONDS):
            os._exit(1)


def _send(connection: socket.socket, message: Report) -> None:
    # The peer is gone. The reading thread of this connection notices that as well.
    with contextlib.suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _hang_up(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)
    connection.close()
