"""Fixtures that run Kafka's tools as separate processes against a real broker."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ottla.testing import Broker
from tests.fork_server import run_forked
from tests.installed import kafka_tool, tool_name


@dataclass(frozen=True)
class Result:
    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()


class Tools:
    """`tools("topics", "--list")` runs `kafka-topics --bootstrap-server … --list`."""

    def __init__(self, bootstrap: str | None) -> None:
        self.bootstrap = bootstrap
        self.environment = {key: value for key, value in os.environ.items() if key != "OTTLA_DEBUG"}

    def arguments(self, *args: object) -> list[str]:
        servers = [] if self.bootstrap is None else ["--bootstrap-server", self.bootstrap]
        return [*servers, *map(str, args)]

    def command(self, tool: str, *args: object) -> list[str]:
        return [kafka_tool(tool), *self.arguments(*args)]

    def __call__(
        self,
        tool: str,
        *args: object,
        stdin: str = "",
        code: int | None = 0,
        cwd: Path | None = None,
        installed: bool = False,
    ) -> Result:
        """Run a tool. `installed` runs the installed command; otherwise the process is forked, which is faster."""
        if installed:
            done = subprocess.run(
                self.command(tool, *args),
                input=stdin.encode(),
                capture_output=True,
                env=self.environment,
                cwd=cwd,
                timeout=60,
            )
        else:
            words = self.arguments(*args)
            done = run_forked(tool_name(tool), *words, stdin=stdin.encode(), env=self.environment, cwd=cwd)
        result = Result(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in result.err
        assert "This is a bug" not in result.err
        if code is not None:
            assert result.code == code, (result.out, result.err)
        return result

    def start(self, tool: str, *args: object, **options: Any) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.command(tool, *args),
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            **options,
        )


@pytest.fixture(scope="session")
def kafka_broker() -> Iterator[Broker]:
    with Broker(config={"num.partitions": "3"}) as broker:
        yield broker


@pytest.fixture(scope="session")
def tools(kafka_broker: Broker) -> Tools:
    return Tools(kafka_broker.bootstrap_servers)


@pytest.fixture(scope="session")
def alone() -> Tools:
    """The tools without a broker address."""
    return Tools(None)


@pytest.fixture
def topic(kafka_broker: Broker, unique: Callable[[str], str]) -> str:
    """A topic with three partitions."""
    name = unique("t")
    kafka_broker.create_topic(name, partitions=3)
    return name


@pytest.fixture
def group(unique: Callable[[str], str]) -> str:
    return unique("g")
