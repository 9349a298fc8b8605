"""The command line as a cluster operator uses it."""

from __future__ import annotations

import subprocess

from ottla.testing import Cluster
from tests.fork_server import run_forked
from tests.installed import tool_name


def run(command: str, *args: object, seconds: float = 60) -> subprocess.CompletedProcess[str]:
    """Run an installed command and capture its output as text."""
    done = run_forked(command, *args, timeout=seconds)
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


def kafka(cluster: Cluster, name: str, *args: object, code: int = 0) -> str:
    """Return the tool's output, including standard error if it should fail."""
    command = tool_name(name.replace("_", "-"))
    done = run(command, "--bootstrap-server", cluster.bootstrap_servers, *args)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + (done.stderr if code else "")
