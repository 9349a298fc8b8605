"""The blocks of a page, and a server in a terminal of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ottla.testing.ports import ReservedPorts
from tests.shell import ROOT, Shell, need_installed_commands, wait_until

DOCS = ROOT / "docs"


def blocks(page: str, *languages: str) -> list[str]:
    """Return the fenced blocks of these languages, in order. `page` is a path below docs/."""
    found = re.findall(r"^```(\w*)\n(.*?)^```", (DOCS / page).read_text(), re.DOTALL | re.MULTILINE)
    return [text for language, text in found if language in languages]


def commands(block: str) -> list[str]:
    """Return the command lines of a block: continued lines as one, without comments and blank lines."""
    lines = re.sub(r"\\\n\s*", "", block).splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


@contextmanager
def laptop_with_servers(directory: Path) -> Iterator[Shell]:
    """A shell in an empty directory in which the default ports mean free ports."""
    need_installed_commands()
    default_ports = ("9092", "8080", "8081", "8082", "8083", "8088", "9404")
    reserved = ReservedPorts(len(default_ports))
    shell = Shell(directory, dict(zip(default_ports, map(str, reserved.numbers), strict=True)), seconds=240)
    shell.environment |= {
        "OTTLA_BOOTSTRAP_SERVER": shell.line("127.0.0.1:9092"),
        "OTTLA_CONNECT_URL": shell.line("http://127.0.0.1:8083"),
        "OTTLA_SCHEMA_REGISTRY_URL": shell.line("http://127.0.0.1:8081"),
        "OTTLA_STATE_DIR": str(directory / "state"),
        "SPARK_MASTER": "local[2]",
    }
    yield shell


_SERVERS = {"console": 8080, "registry": 8081, "rest": 8082, "connect": 8083, "metrics": 9404}


@contextmanager
def started(shell: Shell, line: str) -> Iterator[None]:
    """Run `ottla start …` until the end of the block, on the ports of this shell."""
    for option, port in _SERVERS.items():
        line = re.sub(rf"--{option}(?= |$)(?! \d)", f"--{option} 127.0.0.1:{port}", line)
    if "--listen" not in line:
        line += " --listen 127.0.0.1:9092"
    output = shell.directory / "server.out"
    process = shell.start(line, output)

    def is_ready() -> bool:
        assert process.poll() is None, output.read_text() + output.with_suffix(".err").read_text()
        return "is ready." in output.read_text()

    try:
        wait_until(is_ready, 120)
        yield
    finally:
        process.terminate()
        with suppress(ProcessLookupError):
            try:
                process.wait(60)
            finally:
                process.kill()
