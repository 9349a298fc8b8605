"""How long each installed command takes to start: processor time of `--help` and of `--version`.

    .venv/bin/python -m bench.tools

Processor time, because the clock also counts what else the machine does. Ends with 1 if a command needs more
than LIMIT.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

LIMIT = 0.35  # seconds
REPEAT = 3


def commands() -> list[str]:
    """Each command once: the spellings with .sh are the same."""
    ours = entry_points(group="console_scripts")
    return sorted(
        each.name for each in ours if each.value.startswith("ottla.cli") and not each.name.endswith(".sh")
    )


def processor_seconds(command: Path, option: str) -> float:
    process = subprocess.Popen([command, option], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, _, used = os.wait4(process.pid, 0)
    process.returncode = 0  # it has been waited for
    return used.ru_utime + used.ru_stime


def main() -> int:
    slow = 0
    print("| command | --help, s | --version, s |\n|---|---:|---:|")
    for name in commands():
        path = Path(sys.executable).parent / name
        times = [
            min(processor_seconds(path, option) for _ in range(REPEAT)) for option in ("--help", "--version")
        ]
        slow += max(times) > LIMIT
        print(f"| `{name}` | {times[0]:.2f} | {times[1]:.2f} |", flush=True)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
