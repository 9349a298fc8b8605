"""Transaction writers from a test's point of view: processes to kill, and the history of their reports."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
from collections import Counter
from typing import Any

from tests.history.checker import Outcome, Send, Transaction
from tests.history.recorder import Faults

_OUTCOMES = {
    "committed": Outcome.OK,
    "aborted": Outcome.FAILED,
    "left": Outcome.FAILED,  # its commit was never requested
    "refused": Outcome.FAILED,
    "unknown": Outcome.UNKNOWN,
}


class Writer:
    """A transactional producer, restarted with the same id after a kill."""

    def __init__(
        self,
        bootstrap_servers: str,
        name: str,
        transactional_id: str,
        *,
        timeout_ms: int = 3_000,
        module: str = "tests.history.writer",
    ) -> None:
        self._module = module
        self._arguments = [bootstrap_servers, name, transactional_id, str(timeout_ms)]
        self._lives = 0
        self.said: list[dict[str, Any]] = []
        self.start()

    def start(self) -> None:
        self._lives += 1
        bootstrap_servers, name, *rest = self._arguments
        command = [sys.executable, "-m", self._module, bootstrap_servers, f"{name}.{self._lives}"]
        self._process = subprocess.Popen(
            [*command, *rest],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def kill(self) -> None:
        self._process.kill()
        self._over()

    def stop(self, seconds: float = 30) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        self._process.kill()
        self._over()

    @property
    def ended(self) -> int:
        return sum(event["event"] == "end" for event in self.said)

    @property
    def refused(self) -> int:
        """Return the number of started transactions that the broker or the client rejected."""
        return sum(event["event"] == "trouble" for event in self.said)

    def _over(self) -> None:
        self._process.wait()
        self._reader.join()
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            # A killed writer's last line may be incomplete.
            with contextlib.suppress(json.JSONDecodeError):
                self.said.append(json.loads(line))

    def history(self, faults: Faults) -> list[Send | Transaction]:
        """Return the history for the checker. A rejection counts only if no response can have been lost."""
        begun: dict[str, dict[str, Any]] = {}
        events: list[Send | Transaction] = []
        for event in self.said:
            if event["event"] == "begin":
                begun[event["transaction"]] = event
            elif event["event"] == "end":
                start = begun.pop(event["transaction"])
                outcome = _OUTCOMES[event["outcome"]]
                if event["outcome"] == "refused" and faults.between(start["at"], event["at"]):
                    outcome = Outcome.UNKNOWN
                events += self._sends(start, event["offsets"])
                events.append(Transaction(event["transaction"], outcome))
        for start in begun.values():
            events += self._sends(start, {})
            events.append(Transaction(start["transaction"], Outcome.UNKNOWN))
        return events

    def _sends(self, begin: dict[str, Any], offsets: dict[str, int]) -> list[Send]:
        return [
            Send(
                begin["transaction"].rpartition("-")[0],
                partition,
                value,
                Outcome.OK if value in offsets else Outcome.UNKNOWN,
                offsets.get(value),
                begin["transaction"],
            )
            for partition, value in begin["records"]
        ]

    @property
    def committed_at(self) -> list[float]:
        """Return the times of known commits."""
        return [
            event["at"] for event in self.said if event["event"] == "end" and event["outcome"] == "committed"
        ]

    def tally(self) -> Counter[str]:
        return Counter(f"{e['how']}: {e['outcome']}" for e in self.said if e["event"] == "end")
