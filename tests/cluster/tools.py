"""The command line, as an operator of a cluster uses it."""

from __future__ import annotations

import subprocess

from ottla.testing import Cluster
from tests.fork_server import run_forked
from tests.installed import tool_name


def run(command: str, *args: object, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """An installed command, with what it printed as text."""
    done = run_forked(command, *args, timeout=seconds)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def kafka(cluster: Cluster, name: str, *args: object, code: int = 0) -> str:
    """What the tool prints, to standard error too where it is to fail."""
    command = tool_name(name.replace("_", "-"))
    done = run(command, "--bootstrap-server", cluster.bootstrap_servers, *args)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + (done.stderr if code else "")
