"""Memory and open files of all processes of a soak, with a check that they stay flat."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

#: Growth in the second half that counts as flat: a fraction of the mean, or this many MB or files if larger.
_PART, _JVM_PART = 0.10, 0.25
_LEAST_MB, _LEAST_FILES = 24.0, 16.0


class Sample(NamedTuple):
    at: float  # seconds since the start
    mb: float
    files: int
    processes: int


class Trend(NamedTuple):
    role: str
    mb: float  # mean of the second half
    mb_growth: float  # over the second half, by a linear fit
    files: float
    files_growth: float

    @property
    def is_flat(self) -> bool:
        part = _JVM_PART if "JVM" in self.role else _PART
        return self.mb_growth <= max(part * self.mb, _LEAST_MB) and self.files_growth <= max(
            part * self.files, _LEAST_FILES
        )

    def __str__(self) -> str:
        verdict = "flat" if self.is_flat else "GROWS"
        return (
            f"{self.role:<16} {self.mb:>8.1f} MB {self.mb_growth:>+8.1f} MB {self.files:>7.1f} files "
            f"{self.files_growth:>+6.1f}  {verdict}"
        )


class Resources:
    """Samples every few seconds. `roots` gives the process id of each part of the soak."""

    def __init__(self, roots: Callable[[], Mapping[str, int]], every: float = 5.0) -> None:
        self._roots = roots
        self._every = every
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._begun = time.monotonic()
        self._over: float | None = None
        self.samples: dict[str, list[Sample]] = defaultdict(list)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._over = time.monotonic()

    @property
    def seconds(self) -> float:
        """The duration of the recording."""
        return (self._over or time.monotonic()) - self._begun

    def _run(self) -> None:
        while not self._stopping.wait(self._every):
            at = self.seconds
            for role, pids in roles(self._roots()).items():
                is_shared = role.endswith("helpers")
                measured = [found for pid in pids if (found := _measured(pid, shared=is_shared)) is not None]
                if measured:
                    mb, files = (sum(each) for each in zip(*measured, strict=True))
                    self.samples[role].append(Sample(at, mb, int(files), len(measured)))

    def trends(self) -> list[Trend]:
        """Fit a line to the second half of each series."""
        half = self.seconds / 2
        found = []
        for role, samples in sorted(self.samples.items()):
            late = [each for each in samples if each.at >= half]
            if len(late) < 2:
                continue
            mb, mb_growth = _fit([each.at for each in late], [each.mb for each in late])
            files, files_growth = _fit([each.at for each in late], [float(each.files) for each in late])
            found.append(Trend(role, mb, mb_growth, files, files_growth))
        return found


def roles(roots: Mapping[str, int]) -> dict[str, list[int]]:
    """Return the processes by role: each root, and its descendants as Java or Python processes."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children[parent].append(int(entry.name))
    named = {pid: role for role, pid in roots.items()}
    found: dict[str, list[int]] = defaultdict(list)
    for role, pid in roots.items():
        found[role].append(pid)
        for each in _below(pid, children, named):
            with contextlib.suppress(OSError):
                command = (Path("/proc") / str(each) / "cmdline").read_bytes()
                if b"_WATCH" in command or b"os.getppid() == child" in command:
                    continue  # a watcher that only waits
                kind = "JVM" if b"java" in command.split(b"\0")[0] else "helpers"
                found[f"{role} {kind}"].append(each)
    return found


def _below(pid: int, children: Mapping[int, list[int]], named: Mapping[int, str]) -> Iterator[int]:
    for child in children.get(pid, ()):
        if child not in named:
            yield child
            yield from _below(child, children, named)


def _measured(pid: int, *, shared: bool) -> tuple[float, int] | None:
    """Return MB and open files. Processes with shared memory count their share (PSS), others everything (RSS)."""
    file, name = ("smaps_rollup", "Pss:") if shared else ("status", "VmRSS:")
    try:
        [line] = [
            each for each in Path(f"/proc/{pid}/{file}").read_text().splitlines() if each.startswith(name)
        ]
        return int(line.split()[1]) / 1024, len(os.listdir(f"/proc/{pid}/fd"))
    except (OSError, ValueError):
        return None


def _fit(times: list[float], values: list[float]) -> tuple[float, float]:
    """Return the mean, and the growth over the span from a least-squares line."""
    mean_time, mean = sum(times) / len(times), sum(values) / len(values)
    spread = sum((each - mean_time) ** 2 for each in times)
    slope = sum((t - mean_time) * (v - mean) for t, v in zip(times, values, strict=True)) / spread
    return mean, slope * (times[-1] - times[0])
