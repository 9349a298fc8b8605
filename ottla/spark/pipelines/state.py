"""State files of pipelines: one per name, written by the process that runs the pipeline and read by others.

This module does not need Spark. The file remains after the pipeline ends, so that `status` can report the reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import signal
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from pathlib import Path
from typing import Any

from ottla.spark.checkpoints import local_path, remove
from ottla.spark.pipelines.query_progress import QueryProgress

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")

_WAIT_FOR_THE_END = 0.1


class PipelineError(Exception):
    """One sentence for the user who runs the pipeline; `detail` is shown on request."""

    def __init__(self, message: str, detail: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail


class Phase(StrEnum):
    STARTING = "starting"
    RUNNING = "running"
    STOPPED = "stopped"  # stopped on request
    FINISHED = "finished"  # all queries ended
    FAILED = "failed"
    LOST = "lost"  # its process ended without a reason


_ALIVE = frozenset({Phase.STARTING, Phase.RUNNING})


@dataclass
class PipelineState:
    name: str
    pid: int
    pid_started: int  # clock ticks since boot, to detect reused process ids
    file: str
    master: str
    bootstrap_servers: str
    checkpoints: str
    log: str
    started_at: float
    phase: Phase = Phase.STARTING
    ended_at: float | None = None
    error: str | None = None
    queries: list[QueryProgress] = field(default_factory=list)

    @property
    def is_alive(self) -> bool:
        return self.phase in _ALIVE


def state_directory() -> Path:
    given = os.environ.get("OTTLA_STATE_DIR")
    if given:
        return Path(given)
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base) / "ottla"


def check_name(name: str) -> str:
    if _NAME.fullmatch(name) is None:
        raise PipelineError(
            f"'{name}' cannot be the name of a pipeline: use letters, digits, '.', '_' and '-' (--name NAME)."
        )
    return name


def process_started(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot, or None if it does not exist."""
    try:
        line = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The command name in parentheses may contain anything. The fields follow it.
    fields_after_name = line.rpartition(")")[2].split()
    if fields_after_name[0] in "ZX":
        return None
    return int(fields_after_name[19])


class Pipelines:
    """State files of a user's pipelines."""

    def __init__(self, directory: Path | None = None) -> None:
        self.root = state_directory() if directory is None else directory
        self._directory = self.root / "pipelines"

    def log_file(self, name: str) -> Path:
        return self._directory / f"{name}.log"

    def default_checkpoints(self) -> Path:
        return self.root / "checkpoints"

    def names(self) -> list[str]:
        return sorted(path.stem for path in self._directory.glob("*.json"))

    def all(self) -> list[PipelineState]:
        return [state for name in self.names() if (state := self.find(name)) is not None]

    def find(self, name: str) -> PipelineState | None:
        """Return the last written state. A pipeline whose process disappeared is lost."""
        try:
            state = _from_json(json.loads(self._file(name).read_text()))
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise PipelineError(
                f"{self._file(name)} is not a state of a pipeline: remove it.", str(error)
            ) from None
        if state.is_alive and process_started(state.pid) != state.pid_started:
            state.phase = Phase.LOST
            state.error = f"Its process {state.pid} ended without a word; {state.log} may say why."
        return state

    def get(self, name: str) -> PipelineState:
        state = self.find(check_name(name))
        if state is None:
            known = ", ".join(self.names())
            raise PipelineError(
                f"There is no pipeline '{name}'."
                + (f" There is: {known}." if known else " None was ever run here.")
            )
        return state

    def write(self, state: PipelineState) -> None:
        """Write atomically: readers see the old or the new state, even if this process is killed."""
        draft = self._directory / f".{state.name}.{os.getpid()}"
        draft.write_text(json.dumps(asdict(state), indent=1))
        draft.replace(self._file(state.name))

    @contextlib.contextmanager
    def claim(self, name: str) -> Iterator[None]:
        """Hold a name, so that other processes cannot use it."""
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            lock = (self._directory / f"{name}.lock").open("w")
        except OSError as error:
            raise PipelineError(
                f"The state of pipelines cannot be kept in {self._directory}: {error.strerror}. "
                "OTTLA_STATE_DIR names another place."
            ) from None
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise self._already_runs(name) from None
            yield

    def _already_runs(self, name: str) -> PipelineError:
        state = self.find(name)
        process = f" as process {state.pid}" if state is not None and state.is_alive else ""
        return PipelineError(
            f"Pipeline '{name}' already runs{process}: stop it with `ottla pipeline stop {name}`, "
            "or give this one another --name."
        )

    def stop(self, name: str, seconds: float) -> PipelineState:
        state = self.get(name)
        if not state.is_alive:
            raise PipelineError(f"Pipeline '{name}' is not running: it is {state.phase}.")
        with contextlib.suppress(ProcessLookupError):
            os.kill(state.pid, signal.SIGTERM)
        deadline = time.monotonic() + seconds
        while process_started(state.pid) == state.pid_started:
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"Pipeline '{name}' was asked to stop and has not within {seconds:g} s: "
                    f"process {state.pid} still runs."
                )
            time.sleep(_WAIT_FOR_THE_END)
        return self.get(name)

    def forget(self, name: str) -> list[str]:
        """Remove the checkpoints and the state of a pipeline that is not running.

        Returns the ids of its queries.
        """
        state = self.get(name)
        place = local_path(state.checkpoints)
        if place is None:
            raise PipelineError(
                f"The checkpoints of pipeline '{name}' are not on this machine but at {state.checkpoints}: "
                "remove them there."
            )
        with self.claim(name):
            try:
                queries = remove(place)
            except OSError as error:
                raise PipelineError(f"{place} cannot be removed: {error.strerror}.") from None
            self.log_file(name).unlink(missing_ok=True)
            self._file(name).unlink(missing_ok=True)
        return queries

    def _file(self, name: str) -> Path:
        return self._directory / f"{name}.json"


def _from_json(values: dict[str, Any]) -> PipelineState:
    known = {each.name for each in fields(PipelineState)}
    kept = {name: value for name, value in values.items() if name in known}
    kept["phase"] = Phase(kept["phase"])
    kept["queries"] = [QueryProgress(**query) for query in kept["queries"]]
    return PipelineState(**kept)
