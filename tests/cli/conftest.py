"""Fixtures that run the commands as real processes against a real broker.

OTTLA_TEST_BOOTSTRAP names a running cluster (Apache Kafka, for example). Without it the tests start Ottla.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from tests.fork_server import run_forked


@dataclass(frozen=True)
class Result:
    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        return self.out.decode()

    @property
    def lines(self) -> list[str]:
        return self.text.splitlines()

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Ottla:
    """Runs `ottla …`. Pass `check=False` for commands that should fail."""

    def __init__(self, bootstrap: str | None = None) -> None:
        kept = {key: value for key, value in os.environ.items() if key not in ("NO_COLOR", "OTTLA_DEBUG")}
        self.environment = {**kept, "OTTLA_BOOTSTRAP_SERVER": bootstrap or "127.0.0.1:1", "TERM": "xterm"}

    def __call__(
        self,
        *args: object,
        stdin: bytes = b"",
        check: bool = True,
        timeout: float = 60,
        new_python: bool = False,
    ) -> Result:
        """Run the command. `new_python` starts a new interpreter; otherwise the process is forked, which is faster."""
        if new_python:
            command = [sys.executable, "-m", "ottla.cli", *map(str, args)]
            done = subprocess.run(
                command, input=stdin, capture_output=True, env=self.environment, timeout=timeout
            )
        else:
            done = run_forked("ottla", *args, stdin=stdin, env=self.environment, timeout=timeout)
        result = Result(done.returncode, done.stdout, done.stderr.decode())
        assert "Traceback" not in result.err
        if check:
            assert result.code == 0, result.err
        return result

    def start(self, *args: object, **options: Any) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "ottla.cli", *map(str, args)],
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            **options,
        )


@pytest.fixture(scope="session")
def bootstrap() -> Iterator[str]:
    given = os.environ.get("OTTLA_TEST_BOOTSTRAP")
    if given:
        yield given
        return
    testing = pytest.importorskip("ottla.testing", reason="no broker: set OTTLA_TEST_BOOTSTRAP")
    if not hasattr(testing, "Broker"):
        pytest.skip("no broker: set OTTLA_TEST_BOOTSTRAP")
    with testing.Broker() as broker:
        yield broker.bootstrap_servers


@pytest.fixture(scope="session")
def ottla(bootstrap: str) -> Ottla:
    return Ottla(bootstrap)


@pytest.fixture(scope="session")
def alone() -> Ottla:
    """The command without a broker."""
    return Ottla()


@pytest.fixture
def unique() -> Callable[[str], str]:
    def name(kind: str) -> str:
        return f"{kind}-{uuid.uuid4().hex[:12]}"

    return name


@pytest.fixture
def topic(ottla: Ottla, unique: Callable[[str], str]) -> Iterator[str]:
    """A topic with three partitions."""
    name = unique("topic")
    ottla("topics", "create", name, "--partitions", 3)
    yield name
    ottla("topics", "delete", name, "--yes", "--if-exists")


@pytest.fixture
def group(ottla: Ottla, unique: Callable[[str], str]) -> Iterator[str]:
    name = unique("group")
    yield name
    ottla("groups", "delete", name, "--yes", check=False)
