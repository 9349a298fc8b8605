"""Kafka's command line, as an operator of a cluster uses it."""

from __future__ import annotations

import subprocess

from ottla.testing import Cluster
from tests.installed import kafka_tool


def kafka(cluster: Cluster, name: str, *args: object, code: int = 0) -> str:
    """What the tool prints, to standard error too where it is to fail."""
    command = [kafka_tool(name.replace("_", "-")), "--bootstrap-server", cluster.bootstrap_servers]
    done = subprocess.run([*command, *map(str, args)], capture_output=True, text=True, timeout=60)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout + (done.stderr if code else "")
