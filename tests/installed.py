"""The commands installed beside this Python."""

from __future__ import annotations

import sys
from pathlib import Path


def tool_name(name: str) -> str:
    """Return `kafka-topics` for `topics`; ZooKeeper's tools keep their own names."""
    return name if name.startswith(("zookeeper-", "zk")) else f"kafka-{name}"


def kafka_tool(name: str) -> str:
    """Return the path of a tool: `kafka_tool("topics")` for `kafka-topics`."""
    return str(Path(sys.executable).with_name(tool_name(name)))
