"""The commands that are installed beside this Python."""

from __future__ import annotations

import sys
from pathlib import Path


def tool_name(name: str) -> str:
    """`topics` is `kafka-topics`; ZooKeeper's tools have their own name."""
    return name if name.startswith(("zookeeper-", "zk")) else f"kafka-{name}"


def kafka_tool(name: str) -> str:
    """`kafka_tool("topics")` is the path of `kafka-topics`."""
    return str(Path(sys.executable).with_name(tool_name(name)))
