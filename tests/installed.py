"""The commands that are installed beside this Python."""

from __future__ import annotations

import sys
from pathlib import Path


def kafka_tool(name: str) -> str:
    """`kafka_tool("topics")` is the path of `kafka-topics`; ZooKeeper's tools have no such prefix."""
    return str(Path(sys.executable).with_name(name if name.startswith("zookeeper") else f"kafka-{name}"))
