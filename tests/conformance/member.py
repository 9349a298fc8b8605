"""A group member in its own process, so that a test can kill it."""

from __future__ import annotations

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .records import Record

CLOSE_TIMEOUT = 20.0


class Member:
    """Reads the process's reports in a thread; `wait_until` is the only way to wait for them."""

    def __init__(self, command: Sequence[str], *, directory: Path, log: Path) -> None:
        self.assignment: set[int] = set()
        self.records: list[Record] = []
        self.committed: dict[int, int] = {}
        self.rebalances = 0
        self.failure: str | None = None
        self._log = log
        self._changed = threading.Condition()
        with log.open("wb") as stderr:
            self._process = subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_until(self, condition: Callable[[], bool], what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while not condition():
                left = deadline - time.monotonic()
                if self.failure is not None or left <= 0:
                    raise AssertionError(f"{what}: not within {timeout} s; {self}")
                self._changed.wait(left)

    def wait_until_failed(self, what: str, timeout: float = 60.0) -> None:
        deadline = time.monotonic() + timeout
        with self._changed:
            while self.failure is None:
                left = deadline - time.monotonic()
                assert left > 0, f"{what}: not within {timeout} s; {self}"
                self._changed.wait(left)

    def wait_for_exit(self, timeout: float = CLOSE_TIMEOUT) -> None:
        assert self._process.wait(timeout) == 0, f"the member failed: {self}"
        self._reader.join(CLOSE_TIMEOUT)

    def kill(self) -> None:
        """Kill the process. The broker notices only after the session timeout."""
        self._process.send_signal(signal.SIGKILL)
        self._process.wait(CLOSE_TIMEOUT)
        self._reader.join(CLOSE_TIMEOUT)

    def stop(self) -> None:
        """Stop the process in an orderly way: the member leaves its group."""
        self._ask_to_stop()
        self.wait_for_exit()

    def clean_up(self) -> None:
        if self._process.poll() is None:
            self.kill()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()

    def _ask_to_stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with self._changed:
                self._take(line)
                self._changed.notify_all()

    def _take(self, line: bytes) -> None:
        event: dict[str, Any] = json.loads(line)
        match event["event"]:
            case "assignment":
                self.assignment = {partition for _, partition in event["partitions"]}
            case "assigned":
                self.rebalances += 1
            case "records":
                self.records += map(Record.from_json, event["records"])
            case "committed":
                self.committed.update(event["offsets"])
            case "failed":
                self.failure = event["message"]

    def __str__(self) -> str:
        log = self._log.read_text(errors="replace")[-2000:]
        return (
            f"assignment {sorted(self.assignment)}, {self.rebalances} rebalances, "
            f"{len(self.records)} records, committed {self.committed}, "
            f"failure {self.failure}, exit code {self._process.poll()}\n{log}"
        )
