"""Servers in the background, as Kafka's scripts start and stop them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from ottla.cli.errors import JobError
from ottla.cli.kafka.tool import Parser

# How long to wait for a server in the background; recovery after a crash may take longer, and goes on.
_START_SECONDS = 20.0


def run_in_background(module: str, argv: Sequence[str], output_name: str, started: str) -> int:
    """Run a tool's module without a terminal until it says `started`.

    As with Kafka's scripts its output goes to a file in LOG_DIR, which is ./logs unless it is set.
    """
    directory = Path(os.environ.get("LOG_DIR") or "logs")
    path = directory / output_name
    try:
        directory.mkdir(parents=True, exist_ok=True)
        output = open(path, "ab")  # noqa: SIM115
    except OSError as error:
        raise JobError(f"{directory} cannot be used for the server's output: {error.strerror}.") from None
    began = output.tell()
    with output:
        process = subprocess.Popen(
            [sys.executable, "-m", module, *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    deadline = time.monotonic() + _START_SECONDS
    while True:
        ended = process.poll() is not None
        said = path.read_bytes()[began:].decode(errors="replace").strip()
        if ended:
            raise JobError(said or f"The server ended with {process.returncode}.")
        if started in said or time.monotonic() > deadline:
            return 0
        time.sleep(0.05)


def stop(parser: Parser, argv: list[str], properties: str, servers: Iterable[tuple[int, Path]]) -> int:
    """End all these servers, given by process and properties file, or only that of the file that is named."""
    parser.add_argument(
        "properties", nargs="?", type=Path, metavar=properties, help="only the server of this file"
    )
    args = parser.parse_args(argv)
    only = None if args.properties is None else args.properties.resolve()
    found = [process for process, file in servers if only is None or file == only]
    if not found:
        raise JobError(f"No {parser.prog.removesuffix('-stop').replace('-server', ' server')} to stop")
    for process in found:
        os.kill(process, signal.SIGTERM)
    return 0


def processes() -> Iterator[tuple[int, list[str], Path]]:
    """Id, command line and working directory of every other process of this user."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdecimal() or int(entry.name) == os.getpid():
            continue
        try:
            if entry.stat().st_uid != os.getuid():
                continue
            argv = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            directory = (entry / "cwd").readlink()
        except OSError:
            continue  # it has ended meanwhile
        yield int(entry.name), argv, directory
